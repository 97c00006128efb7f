-- The number by which rows refer to a task, its namespace, and until when it is used.
-- Index: UNIQUE (id).
-- Concurrency: a namespace never changes; a number never changes, and is given to another task only when no row refers to it.
SELECT number, used_until, namespace FROM task WHERE id = ?1

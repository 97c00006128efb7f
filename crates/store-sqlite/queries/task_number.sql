-- The number by which rows refer to a task, and until when it is used.
-- Index: UNIQUE (id).
-- Concurrency: a number never changes, and is given to another task only when no row refers to it.
SELECT number, used_until FROM task WHERE id = ?1

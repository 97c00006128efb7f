-- The number by which rows refer to a task.
-- Index: UNIQUE (id).
-- Concurrency: a number never changes and is never given to another task.
SELECT number FROM task WHERE id = ?1

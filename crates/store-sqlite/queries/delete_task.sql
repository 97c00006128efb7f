-- Hides a task and frees its name.
-- Guarantees: the row stays, for jobs that wait and for history.
-- Index: UNIQUE (id).
-- Concurrency: only the writer runs it.
UPDATE task SET deleted = 1 WHERE id = ?1 AND deleted = 0 AND name IS NOT NULL

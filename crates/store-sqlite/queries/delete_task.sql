-- Hides a task and frees its name.
-- Guarantees: the row stays, for jobs that wait and for history, and for a while for who has just read it.
-- Index: UNIQUE (id).
-- Concurrency: only the writer runs it.
UPDATE task SET deleted = 1, used_until = max(used_until, ?2) WHERE id = ?1 AND deleted = 0 AND name IS NOT NULL

-- A notice is dealt with.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
DELETE FROM notice WHERE seq = ?1

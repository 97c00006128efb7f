-- An object that was deleted.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
DELETE FROM dropped_log WHERE path = ?1

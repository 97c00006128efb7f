-- The pieces of a log that end within its first bytes: they are in its object.
-- Index: UNIQUE (job, attempt, offset).
-- Concurrency: only the writer runs it, in the transaction that records the object.
DELETE FROM log WHERE job = ?1 AND attempt = ?2 AND offset + length(bytes) <= ?3

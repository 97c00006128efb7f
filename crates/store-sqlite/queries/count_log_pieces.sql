-- How many pieces of a log end within its first bytes.
-- Index: UNIQUE (job, attempt, offset).
-- Concurrency: run by the writer in the transaction that removes them.
SELECT count(*) FROM log WHERE job = ?1 AND attempt = ?2 AND offset + length(bytes) <= ?3

-- Where the last piece of a log ends that begins before an offset.
-- Index: UNIQUE (job, attempt, offset), backwards.
-- Concurrency: run by the writer in the transaction that appends.
SELECT offset + length(bytes) FROM log WHERE job = ?1 AND attempt = ?2 AND offset < ?3 ORDER BY offset DESC LIMIT 1

-- Where the last piece of a log ends.
-- Index: UNIQUE (job, attempt, offset), backwards.
-- Concurrency: a snapshot.
SELECT offset + length(bytes) FROM log WHERE job = ?1 AND attempt = ?2 ORDER BY offset DESC LIMIT 1

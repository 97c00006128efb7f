-- All pieces of a log, in order.
-- Index: UNIQUE (job, attempt, offset), in its order.
-- Concurrency: a snapshot.
SELECT offset, bytes FROM log WHERE job = ?1 AND attempt = ?2 ORDER BY offset

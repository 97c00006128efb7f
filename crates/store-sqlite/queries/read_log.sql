-- The pieces of a log from the one that holds an offset, in order. The caller stops when it has enough.
-- Index: UNIQUE (job, attempt, offset), in its order.
-- Concurrency: a snapshot.
SELECT offset, bytes FROM log
WHERE job = ?1 AND attempt = ?2
  AND offset >= coalesce((SELECT max(offset) FROM log WHERE job = ?1 AND attempt = ?2 AND offset <= ?3), 0)
ORDER BY offset

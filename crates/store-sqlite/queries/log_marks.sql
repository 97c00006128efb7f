-- The marks of the pieces of a log from the one that holds an offset to the last that begins before another, in order.
-- Index: UNIQUE (job, attempt, offset), in its order.
-- Concurrency: a snapshot.
SELECT offset, length(bytes), marks FROM log
WHERE job = ?1 AND attempt = ?2 AND marks IS NOT NULL AND offset < ?4
  AND offset >= coalesce((SELECT max(offset) FROM log WHERE job = ?1 AND attempt = ?2 AND offset <= ?3), 0)
ORDER BY offset

-- The pieces of a log from the one that holds an offset, in order, so many.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT begins, bytes FROM log
WHERE job = $1 AND attempt = $2
  AND begins >= coalesce((
      SELECT begins FROM log WHERE job = $1 AND attempt = $2 AND begins <= $3 ORDER BY begins DESC LIMIT 1
  ), 0)
ORDER BY begins LIMIT $4

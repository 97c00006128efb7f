-- The marks of the pieces of a log from the one that holds an offset to the last that begins before another, in order.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT begins, octet_length(bytes), marks FROM log
WHERE job = $1 AND attempt = $2 AND marks IS NOT NULL AND begins < $4
  AND begins >= coalesce((
      SELECT begins FROM log WHERE job = $1 AND attempt = $2 AND begins <= $3 ORDER BY begins DESC LIMIT 1
  ), 0)
ORDER BY begins

-- The pieces of a log after one, in order, so many.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT begins, bytes FROM log WHERE job = $1 AND attempt = $2 AND begins > $3 ORDER BY begins LIMIT $4

-- The next attempt that has pieces of a log, after one. Called once for each: it steps over all other pieces.
-- Index: UNIQUE (job, attempt, offset), in its order.
-- Concurrency: a snapshot.
SELECT job, attempt FROM log WHERE (job, attempt) > (?1, ?2) ORDER BY job, attempt LIMIT 1

-- Outcomes of a job that came too late to count, by attempt and worker.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT attempt, worker, at, outcome FROM stale_outcome WHERE job = $1 ORDER BY attempt, worker LIMIT $2

-- The runs of a backfill in order of time.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT at, job, state FROM backfill_run WHERE backfill = $1 AND at > $2 ORDER BY at LIMIT $3

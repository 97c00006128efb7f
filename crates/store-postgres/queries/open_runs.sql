-- The runs of a backfill whose jobs are not known to have ended, in order of time.
-- Index: backfill_run_open, in its order.
-- Concurrency: a snapshot.
SELECT at, job, state FROM backfill_run WHERE backfill = $1 AND state IS NULL ORDER BY at LIMIT $2

-- The runs that backfills made of a schedule's times between two, both included, in order of time and backfill.
-- Index: backfill_run_schedule, in its order.
-- Concurrency: a snapshot.
SELECT at, job, state, backfill FROM backfill_run
WHERE schedule = $1 AND at >= $2 AND at <= $3 ORDER BY at, backfill LIMIT $4

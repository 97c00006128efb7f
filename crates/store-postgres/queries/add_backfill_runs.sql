-- Times of a backfill that get a job.
-- Guarantees: all, or a constraint violation if one has a run already.
-- Index: the primary key.
-- Concurrency: the backfill is locked by step_backfill.
INSERT INTO backfill_run (backfill, schedule, at, job)
SELECT $1, $2, at, job FROM unnest($3::bigint[], $4::uuid[]) AS new (at, job)

-- How the jobs of some times of a backfill ended.
-- Index: the primary key.
-- Concurrency: the backfill is locked by step_backfill.
UPDATE backfill_run SET state = seen.state
FROM unnest($2::bigint[], $3::smallint[]) AS seen (at, state)
WHERE backfill_run.backfill = $1 AND backfill_run.at = seen.at

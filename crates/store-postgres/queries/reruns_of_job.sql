-- How often a job was made eligible again, the first time first.
-- Index: rerun_job.
-- Concurrency: a snapshot.
SELECT at, state, next_attempt FROM rerun WHERE job = $1 ORDER BY at, next_attempt

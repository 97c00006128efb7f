-- The records of further runs of jobs, removed by retention.
-- Index: rerun_job.
-- Concurrency: in the transaction that removes the jobs.
DELETE FROM rerun WHERE job = ANY ($1::uuid[])

-- The records of a job's further runs, removed by retention.
-- Index: rerun_job.
-- Concurrency: only the writer runs it.
DELETE FROM rerun WHERE job = ?1

-- The commands on a job, removed by retention.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
DELETE FROM job_action WHERE job = ?1

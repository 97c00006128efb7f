-- The commands on jobs, removed by retention.
-- Index: the primary key.
-- Concurrency: in the transaction that removes the jobs.
DELETE FROM job_action WHERE job = ANY ($1::uuid[])

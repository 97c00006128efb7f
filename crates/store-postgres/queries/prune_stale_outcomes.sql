-- The late outcomes of jobs, removed by retention.
-- Index: the key, which begins with the job's id.
-- Concurrency: in the transaction that removes the jobs.
DELETE FROM stale_outcome WHERE job = ANY ($1::uuid[])

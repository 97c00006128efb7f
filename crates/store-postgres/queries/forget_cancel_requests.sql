-- The requests to cancel jobs, gone with the attempt or with the job.
-- Index: the primary key.
-- Concurrency: under the shards' fences, or by retention for jobs that are gone.
DELETE FROM cancel_request WHERE job = ANY ($1::uuid[])

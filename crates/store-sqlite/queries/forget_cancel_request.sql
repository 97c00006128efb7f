-- The request to cancel a job, gone with the attempt or with the job.
-- Index: the key, which begins with the job's id.
-- Concurrency: only the writer runs it.
DELETE FROM cancel_request WHERE job = ?1

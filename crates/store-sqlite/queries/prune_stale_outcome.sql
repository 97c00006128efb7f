-- The late outcomes of a job, removed by retention.
-- Index: the key, which begins with the job's id.
-- Concurrency: only the writer runs it.
DELETE FROM stale_outcome WHERE job = ?1

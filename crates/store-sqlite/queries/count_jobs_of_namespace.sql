-- How many jobs of a namespace other than the default one wait or run, up to so many.
-- Index: job_namespace.
-- Concurrency: a snapshot.
SELECT count(*) FROM (SELECT 1 FROM job WHERE namespace = ?1 LIMIT ?2)

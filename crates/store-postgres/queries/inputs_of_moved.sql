-- The inputs of jobs that wait or run again.
-- Guarantees: no row for one that is not there, or is where its id says.
-- Index: job_moved.
-- Concurrency: a snapshot.
SELECT id, input FROM job WHERE id = ANY ($1::uuid[]) AND moved

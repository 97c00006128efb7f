-- Puts a command on a job on record, later than those before it.
-- Guarantees: one row or none; none if another one was put at the same moment.
-- Index: the primary key, backwards.
-- Concurrency: of two at one moment, the second waits for the first and inserts nothing; the caller tries again.
INSERT INTO job_action (job, at, kind, requester)
SELECT $1, greatest($2::bigint, 1 + coalesce((SELECT at FROM job_action WHERE job = $1 ORDER BY at DESC LIMIT 1), 0)), $3, $4
ON CONFLICT (job, at) DO NOTHING

-- Puts a command on a job on record, later than those before it.
-- Guarantees: one row.
-- Index: the primary key, backwards.
-- Concurrency: only the writer runs it.
INSERT INTO job_action (job, at, kind, requester)
SELECT ?1, max(?2, 1 + coalesce((SELECT at FROM job_action WHERE job = ?1 ORDER BY at DESC LIMIT 1), 0)), ?3, ?4

-- Removes the earliest commands on a job; the latest, so many, stay.
-- Index: the primary key, backwards.
-- Concurrency: only the writer runs it.
DELETE FROM job_action
WHERE job = ?1 AND at < (SELECT at FROM job_action WHERE job = ?1 ORDER BY at DESC LIMIT 1 OFFSET ?2 - 1)

-- The commands on a job, the earliest first.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT at, kind, requester FROM job_action WHERE job = $1 ORDER BY at

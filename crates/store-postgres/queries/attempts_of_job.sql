-- The attempts that did not end their job, in order.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT attempt, worker, server, picked_up_at, started_at, finished_at, ending, reason, details, log_path, log_bytes,
       due_at
FROM attempt WHERE job = $1 ORDER BY attempt

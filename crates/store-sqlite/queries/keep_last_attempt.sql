-- Moves the attempt that ended a job to those that did not, when the job is to run again.
-- Guarantees: nothing when the job never ran; a second record of the same attempt is a constraint violation.
-- Index: the primary keys.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT INTO attempt (job, attempt, worker, server, picked_up_at, started_at, finished_at, ending, reason, details, log_path, log_bytes,
    due_at, namespace)
SELECT id, attempt, worker, server, picked_up_at, started_at, finished_at, ending, reason, details, log_path, log_bytes,
       due_at, namespace
FROM history WHERE id = ?1 AND attempt IS NOT NULL

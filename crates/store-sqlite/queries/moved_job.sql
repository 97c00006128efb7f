-- When a job that was moved is due now.
-- Index: job_moved; the condition is its own, or it would not be used.
-- Concurrency: a snapshot, or the writer's transaction.
SELECT due_at FROM job WHERE id = ?1 AND moved = 1

-- Runs that are to be looked at by now, the longest overdue first.
-- Guarantees: each once.
-- Index: workflow_run_wake, in its order.
-- Concurrency: a snapshot.
SELECT id FROM workflow_run WHERE wake_at <= $1 ORDER BY wake_at LIMIT $2

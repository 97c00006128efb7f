-- Removes runs that ended before a time, so many at once, the oldest first.
-- Guarantees: never one that goes on.
-- Index: workflow_run_ended, in its order.
-- Concurrency: only the writer runs it.
DELETE FROM workflow_run WHERE id IN (SELECT id FROM workflow_run WHERE ended_at < ?1 ORDER BY ended_at, id LIMIT ?2)

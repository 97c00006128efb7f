-- Removes the outputs of runs that ended before a time, of so many runs, the oldest first.
-- Guarantees: the same runs as prune_runs.
-- Index: workflow_run_ended; for each, the primary key.
-- Concurrency: a run that ended is not stepped but by a request to resume it, which fails without its row.
DELETE FROM workflow_output WHERE run IN (SELECT id FROM workflow_run WHERE ended_at < $1 ORDER BY ended_at, id LIMIT $2)

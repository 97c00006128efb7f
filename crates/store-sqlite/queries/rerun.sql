-- Copies a finished job back into the hot table, under a new due time. `keep_last_attempt` and
-- `prune_history` then empty its place in history.
-- Guarantees: one row or none. The input never leaves SQLite; the output is given up.
-- Index: the primary keys of history and job; job_moved and job_tracked follow.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT INTO job (shard, due_at, id, task, moved, next_attempt, failures, node_failures, priority, submitted_at, tracing_id, source, input, namespace,
    requester)
SELECT ?2, ?3, id, task, ?4, ?5, ?6, ?7, priority, submitted_at, tracing_id, source, input, namespace, requester
FROM history WHERE id = ?1

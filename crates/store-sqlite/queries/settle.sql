-- Copies a job into history with the end that was decided. `take_job` then removes it.
-- Guarantees: one row or none; none when the job is not there or has another attempt. The input never leaves SQLite.
-- OR FAIL: one row cannot fail halfway, so SQLite need not prepare to undo the statement. Without it a drained job
-- costs the writer 6 µs instead of 4 (benches/shapes.rs).
-- Index: the primary keys of job and history.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT OR FAIL INTO history (
    id, task, state, due_at, submitted_at, finished_at, early, next_attempt, failures, node_failures, priority,
    attempt, worker, server, picked_up_at, started_at, ending, tracing_id, reason, output, input, details, source,
    namespace, requester
)
SELECT id, task, ?4, due_at, submitted_at, ?5, ?6, ?7, ?8, ?9, priority,
       ?10, ?11, ?12, ?13, ?14, ?15, tracing_id, ?16, ?17, input, ?18, source,
       namespace, requester
FROM job
WHERE shard = ?1 AND due_at = ?2 AND id = ?3 AND (?10 IS NULL OR next_attempt = ?10)

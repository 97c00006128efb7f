-- Stores the job of a planned time, with the input that its schedule has now.
-- Guarantees: a row with the same key is a constraint violation. The input never leaves SQLite.
-- Index: the primary keys of job and schedule; job_tracked follows.
-- Concurrency: only the writer runs it, under the shard's fence, after `insert_occurrence` or `release_occurrence`.
INSERT INTO job (
    shard, due_at, id, task, moved, next_attempt, failures, node_failures, priority, submitted_at, source, namespace, input
)
VALUES (?1, ?2, ?3, ?4, 0, 1, 0, 0, ?5, ?6, ?7, ?9, (SELECT input FROM schedule WHERE shard = ?1 AND id = ?8))

-- Stores a new job.
-- Guarantees: a row with the same key is a constraint violation. Ids are drawn at random and not looked up elsewhere.
-- Index: the primary key; job_tracked and job_namespace follow.
-- Concurrency: only the writer runs it. Not fenced: a new row disturbs no decision.
INSERT INTO job (shard, due_at, id, task, moved, next_attempt, failures, node_failures, priority, submitted_at, tracing_id, source, input, namespace,
    requester)
VALUES (?1, ?2, ?3, ?4, 0, 1, 0, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11)

-- Keeps an attempt that did not end its job.
-- Guarantees: a second record of the same attempt is a constraint violation.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT INTO attempt (job, attempt, worker, server, picked_up_at, started_at, finished_at, ending, reason, details,
    due_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)

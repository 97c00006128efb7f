-- What the owner needs to know of a finished job.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT state, attempt, next_attempt, failures, node_failures FROM history WHERE id = ?1

-- What the owner needs to know of a finished job.
-- Index: those on id of the partitions.
-- Concurrency: a snapshot.
SELECT state, attempt, next_attempt, failures, node_failures FROM history WHERE id = $1

-- The inputs of jobs in history.
-- Guarantees: no row for one that is not there.
-- Index: the primary key of each partition.
-- Concurrency: a snapshot.
SELECT id, input FROM history WHERE id = ANY ($1::uuid[])

-- Finished jobs, removed by retention.
-- Index: those on id of the partitions.
-- Concurrency: in the transaction that locked them.
DELETE FROM history WHERE id = ANY ($1::uuid[])

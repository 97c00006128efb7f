-- Tasks that no row refers to, removed by retention.
-- Index: the primary key.
-- Concurrency: in the transaction that locked them.
DELETE FROM task WHERE number = ANY ($1::bigint[])

-- The cluster's secret is sealed now, and its plain text goes.
-- Index: the primary key.
-- Concurrency: in the transaction that keeps the sealed one.
DELETE FROM meta WHERE key = 'cluster_secret'

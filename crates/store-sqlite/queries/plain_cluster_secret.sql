-- The cluster's secret as versions before root keys stored it.
-- Guarantees: no row once it was sealed.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT value FROM meta WHERE key = 'cluster_secret'

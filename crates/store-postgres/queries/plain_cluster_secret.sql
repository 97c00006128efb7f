-- The cluster's secret as versions before root keys stored it.
-- Guarantees: no row once it was sealed.
-- Index: the primary key.
-- Concurrency: a snapshot. It never changes; it only goes.
SELECT decode(value, 'hex') FROM meta WHERE key = 'cluster_secret'

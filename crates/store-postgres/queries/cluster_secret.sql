-- What the servers of this store know each other by.
-- Index: the primary key.
-- Concurrency: once it is there it never changes.
SELECT decode(value, 'hex') FROM meta WHERE key = 'cluster_secret'

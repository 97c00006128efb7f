-- What the servers know each other by.
-- Guarantees: one row, once it was stored.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
SELECT value FROM meta WHERE key = 'cluster_secret'

-- The revision of all changes of namespaces.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT revision FROM namespace_counter WHERE id = 1

-- A sealed key.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT label, root_key, sealed FROM sealed_key WHERE label = $1

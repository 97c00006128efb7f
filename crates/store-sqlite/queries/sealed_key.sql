-- A sealed key.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
SELECT label, root_key, sealed FROM sealed_key WHERE label = ?1

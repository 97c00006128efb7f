-- Removes a sealed key.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
DELETE FROM sealed_key WHERE label = ?1

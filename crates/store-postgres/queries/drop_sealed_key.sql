-- Removes a sealed key.
-- Index: the primary key.
-- Concurrency: a rotation of the root key at the same time is waited for, or finds other labels and changes nothing.
DELETE FROM sealed_key WHERE label = $1

-- A key is sealed with another root key now.
-- Guarantees: only if it was sealed with the former one.
-- Index: the primary key.
-- Concurrency: after lock_count.
UPDATE sealed_key SET root_key = $3, sealed = $4 WHERE label = $1 AND root_key = $2

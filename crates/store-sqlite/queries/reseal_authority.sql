-- The key of an authority is sealed anew.
-- Guarantees: only if it is stored as it was known.
-- Index: the primary key.
-- Concurrency: in the transaction that drops what it was sealed with.
UPDATE authority SET sealed_key = ?3 WHERE generation = ?1 AND sealed_key = ?2

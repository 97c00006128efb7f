-- The revision of a secret that is about to be changed.
-- Index: the primary key.
-- Concurrency: after lock_count, so that it stays true.
SELECT revision FROM secret WHERE namespace = $1 AND name = $2

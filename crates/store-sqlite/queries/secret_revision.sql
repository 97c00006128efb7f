-- The revision of a secret.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
SELECT revision FROM secret WHERE namespace = ?1 AND name = ?2

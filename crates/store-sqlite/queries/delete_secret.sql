-- Removes a secret.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
DELETE FROM secret WHERE namespace = ?1 AND name = ?2

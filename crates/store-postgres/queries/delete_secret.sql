-- Removes a secret.
-- Index: the primary key.
-- Concurrency: a change at the same time is waited for, or finds it gone.
DELETE FROM secret WHERE namespace = $1 AND name = $2

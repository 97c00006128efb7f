-- The interned tasks with these contents.
-- Index: UNIQUE (digest).
-- Concurrency: a snapshot. Retention removes one only long after it was last used.
SELECT digest, id, number, used_until FROM task WHERE digest = ANY ($1::bytea[])

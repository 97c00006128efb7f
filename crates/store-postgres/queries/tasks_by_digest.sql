-- The interned tasks with these contents.
-- Index: UNIQUE (digest).
-- Concurrency: a snapshot. Retention removes one only long after it was last used.
SELECT task.digest, task.id, task.number, task.used_until, task.namespace
FROM unnest($1::bytea[], $2::integer[]) AS wanted (digest, namespace)
JOIN task ON task.namespace = wanted.namespace AND task.digest = wanted.digest

-- How many named tasks refer to each secret of a namespace, in order of name.
-- Index: the primary key of secret_use, in its order. For each, UNIQUE (id) of task.
-- Concurrency: a snapshot.
SELECT secret_use.secret, count(*) FROM secret_use JOIN task ON task.id = secret_use.task
WHERE secret_use.namespace = $1 AND NOT task.deleted AND task.name IS NOT NULL
GROUP BY secret_use.namespace, secret_use.secret ORDER BY secret_use.namespace, secret_use.secret

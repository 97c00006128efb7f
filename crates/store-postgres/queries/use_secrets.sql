-- The secrets that a task refers to.
-- Index: the primary key.
-- Concurrency: in the transaction that stores the task.
INSERT INTO secret_use (namespace, secret, task) SELECT $1, unnest($2::text[]), $3 ON CONFLICT DO NOTHING

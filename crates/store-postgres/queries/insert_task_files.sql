-- The files that a task reads.
-- Index: the primary key.
-- Concurrency: in a transaction that has locked the artifacts, so that none of them goes.
INSERT INTO task_file (artifact, task) SELECT unnest($2::uuid[]), $1 ON CONFLICT DO NOTHING

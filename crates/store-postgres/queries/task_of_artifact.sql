-- A task that refers to an artifact.
-- Index: task_artifact, in its order.
-- Concurrency: in a transaction that has locked the artifact, so that none can be added.
SELECT id, name FROM task WHERE artifact = $1 ORDER BY artifact, id LIMIT 1

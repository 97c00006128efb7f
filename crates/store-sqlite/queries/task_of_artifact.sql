-- A task that refers to an artifact.
-- Index: task_artifact, in its order.
-- Concurrency: in the writer.
SELECT id, name FROM task WHERE artifact = ?1 ORDER BY id LIMIT 1

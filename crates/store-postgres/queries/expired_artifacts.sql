-- Pending artifacts whose time is over and that no task refers to, so many.
-- Index: artifact_pending, in its order; the condition is its own. For each, task_artifact.
-- Concurrency: as unused_artifacts.
SELECT id FROM artifact
WHERE state = 1 AND at < $1 AND NOT EXISTS (SELECT 1 FROM task WHERE task.artifact = artifact.id)
  AND NOT EXISTS (SELECT 1 FROM task_file JOIN task ON task.id = task_file.task WHERE task_file.artifact = artifact.id)
ORDER BY id LIMIT $2

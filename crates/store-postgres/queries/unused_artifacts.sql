-- Artifacts that were last used before a time and that no task refers to, so many.
-- Index: artifact_used, in its order. For each, task_artifact.
-- Concurrency: a snapshot; whether it is still so is seen once each is locked.
SELECT id FROM artifact
WHERE used_at < $1 AND NOT EXISTS (SELECT 1 FROM task WHERE task.artifact = artifact.id)
  AND NOT EXISTS (SELECT 1 FROM task_file JOIN task ON task.id = task_file.task WHERE task_file.artifact = artifact.id)
ORDER BY used_at, id LIMIT $2

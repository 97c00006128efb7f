-- Removes an artifact that was not used since, and that no task refers to.
-- Index: the primary key, and task_artifact.
-- Concurrency: in a transaction that has locked the artifact before this statement began.
DELETE FROM artifact
WHERE id = $1 AND (used_at < $2 OR (state = 1 AND at < $3))
  AND NOT EXISTS (SELECT 1 FROM task WHERE task.artifact = artifact.id)
  AND NOT EXISTS (SELECT 1 FROM task_file JOIN task ON task.id = task_file.task WHERE task_file.artifact = artifact.id)

-- Removes an artifact that no task refers to, but for those of a list.
-- Index: the primary key, and task_artifact.
-- Concurrency: in a transaction that has locked the artifact before this statement began, so that it sees every task
-- that refers to it.
DELETE FROM artifact WHERE id = $1
  AND NOT EXISTS (SELECT 1 FROM task WHERE task.artifact = artifact.id AND task.id <> ALL ($2::uuid[]))
  AND NOT EXISTS (
      SELECT 1 FROM task_file JOIN task ON task.id = task_file.task
      WHERE task_file.artifact = artifact.id AND task.id <> ALL ($2::uuid[])
  )

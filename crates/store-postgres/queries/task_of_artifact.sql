-- A task that refers to an artifact, but for those of a list.
-- Index: task_artifact; the primary key of task_file.
-- Concurrency: in a transaction that has locked the artifact, so that none can be added.
SELECT task.id, task.name FROM task WHERE task.artifact = $1 AND task.id <> ALL ($2::uuid[])
UNION ALL
SELECT task.id, task.name FROM task_file JOIN task ON task.id = task_file.task
WHERE task_file.artifact = $1 AND task.id <> ALL ($2::uuid[])
LIMIT 1

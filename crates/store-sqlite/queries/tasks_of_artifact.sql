-- The tasks that refer to an artifact.
-- Index: task_artifact; the primary key of task_file.
-- Concurrency: in the writer.
SELECT task.id, task.name FROM task WHERE task.artifact = ?1
UNION ALL
SELECT task.id, task.name FROM task_file JOIN task ON task.id = task_file.task WHERE task_file.artifact = ?1

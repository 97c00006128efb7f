-- A task reads no files any more, or others.
-- Index: task_file_task.
-- Concurrency: in the transaction that changes the task.
DELETE FROM task_file WHERE task = $1

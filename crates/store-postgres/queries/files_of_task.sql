-- The files that a task reads.
-- Index: task_file_task.
-- Concurrency: in the transaction that changes the task.
SELECT artifact FROM task_file WHERE task = $1 ORDER BY artifact

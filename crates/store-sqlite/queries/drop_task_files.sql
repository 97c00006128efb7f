-- A task reads no files any more, or others.
-- Index: task_file_task.
-- Concurrency: in the writer.
DELETE FROM task_file WHERE task = ?1

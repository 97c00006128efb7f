-- Removes what is left of tasks that are gone.
-- Index: none for task_file, which is small: it has rows only of tasks that read files. For each, UNIQUE (id) of task.
-- Concurrency: in the writer.
DELETE FROM task_file WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.id = task_file.task)

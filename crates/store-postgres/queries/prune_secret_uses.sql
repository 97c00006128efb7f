-- Removes what is left of tasks that are gone.
-- Index: none for secret_use, which is small: it has rows only of tasks that use secrets. For each, UNIQUE (id) of task.
-- Concurrency: a task that is stored meanwhile is not seen, and neither are its secrets.
DELETE FROM secret_use WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.id = secret_use.task)

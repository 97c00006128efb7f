-- A task refers to no secret any more, or to others.
-- Index: secret_use_task.
-- Concurrency: in the transaction that changes the task.
DELETE FROM secret_use WHERE task = $1

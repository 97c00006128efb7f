-- As task_numbers, and retention waits until the transaction has ended.
-- Index: UNIQUE (id).
-- Concurrency: for jobs so long overdue that retention may take their tasks for unused.
SELECT id, number, used_until, namespace FROM task WHERE id = ANY ($1::uuid[]) FOR KEY SHARE

-- The numbers by which rows refer to tasks, and until when they are used.
-- Index: UNIQUE (id).
-- Concurrency: a number never changes and is never given again. What is remembered of it stays true until
-- retention removes the task, which it does only long after it was last used.
SELECT id, number, used_until, namespace FROM task WHERE id = ANY ($1::uuid[])

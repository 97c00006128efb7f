-- Tasks that refer to a secret and that may still run, so many.
-- Index: the primary key of secret_use. For each, UNIQUE (id) of task and schedule_task.
-- Concurrency: a snapshot.
SELECT task.id, task.name FROM secret_use JOIN task ON task.id = secret_use.task
WHERE secret_use.namespace = $1 AND secret_use.secret = $2 AND NOT task.deleted
  AND (task.name IS NOT NULL OR task.used_until > $3
       OR EXISTS (SELECT 1 FROM schedule WHERE schedule.task = task.id))
LIMIT $4

-- Deleted and nameless tasks that were last used before a time and that neither history nor a schedule needs, so many.
-- Index: task_unlisted; the condition is its own, or it would not be used. For each, history_task of the partitions,
-- and schedule_task.
-- Concurrency: locks them for the transaction that removes them. Whoever is about to use one goes first, or waits and
-- then finds it gone.
SELECT number FROM task
WHERE (deleted OR name IS NULL) AND used_until < $1
  AND NOT EXISTS (SELECT 1 FROM history WHERE history.task = task.number)
  AND NOT EXISTS (SELECT 1 FROM schedule WHERE schedule.task = task.id)
ORDER BY used_until LIMIT $2 FOR UPDATE SKIP LOCKED

-- Deleted and nameless tasks that were last used before a time and that history does not need, so many.
-- Index: task_unlisted; the condition is its own, or it would not be used. For each, history_task of the partitions.
-- Concurrency: locks them for the transaction that removes them. Whoever is about to use one goes first, or waits and
-- then finds it gone.
SELECT number FROM task
WHERE (deleted OR name IS NULL) AND used_until < $1
  AND NOT EXISTS (SELECT 1 FROM history WHERE history.task = task.number)
ORDER BY used_until LIMIT $2 FOR UPDATE SKIP LOCKED

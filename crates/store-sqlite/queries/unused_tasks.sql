-- Deleted and nameless tasks that were last used before a time and that neither history nor a schedule needs.
-- Index: task_unlisted; the condition is its own, or it would not be used. For each, history_task and schedule_task.
-- Concurrency: run by the writer in the transaction that removes them.
SELECT number FROM task
WHERE (deleted = 1 OR name IS NULL) AND used_until < ?1
  AND NOT EXISTS (SELECT 1 FROM history WHERE history.task = task.number)
  AND NOT EXISTS (SELECT 1 FROM schedule WHERE schedule.task = task.number)
ORDER BY used_until LIMIT ?2

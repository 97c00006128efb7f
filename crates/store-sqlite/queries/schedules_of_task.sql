-- The names of the schedules of a task, in no order, no more than are asked for.
-- Index: schedule_task.
-- Concurrency: a snapshot.
SELECT name FROM schedule WHERE task = ?1 LIMIT ?2

-- The names of some schedules of a task, in order.
-- Index: schedule_task, in its order.
-- Concurrency: a snapshot.
SELECT name FROM schedule WHERE task = $1 ORDER BY name LIMIT $2

-- Schedules from a name on, in order of name. The caller stops when it has enough.
-- Guarantees: inputs are not read.
-- Index: schedule_name, in its order; CROSS JOIN keeps task from going first.
-- Concurrency: a snapshot.
SELECT schedule.id, schedule.name, task.id, schedule.spec, schedule.priority, schedule.input IS NOT NULL,
       schedule.revision, schedule.since, schedule.paused_at, schedule.paused_by, schedule.pause_note,
       schedule.skip_until, schedule.runs, schedule.failures, schedule.last_success, schedule.namespace,
       schedule.calendars, schedule.created_at, schedule.created_by, schedule.changed_at, schedule.changed_by
FROM schedule CROSS JOIN task ON task.number = schedule.task
WHERE schedule.namespace = ?2 AND schedule.name >= ?1
ORDER BY schedule.name

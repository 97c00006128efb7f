-- Schedules that are paused, from a name on, in order of name. The caller stops when it has enough.
-- Guarantees: inputs are not read.
-- Index: schedule_paused, in its order; the condition is its own. CROSS JOIN keeps task from going first.
-- Concurrency: a snapshot.
SELECT schedule.id, schedule.name, task.id, schedule.spec, schedule.priority, schedule.input IS NOT NULL,
       schedule.revision, schedule.since, schedule.paused_at, schedule.paused_by, schedule.pause_note,
       schedule.skip_until, schedule.runs, schedule.failures, schedule.last_success, schedule.namespace,
       schedule.calendars, schedule.created_at, schedule.created_by, schedule.changed_at, schedule.changed_by
FROM schedule CROSS JOIN task ON task.number = schedule.task
WHERE schedule.namespace = ?2 AND schedule.name >= ?1 AND schedule.paused_at IS NOT NULL
ORDER BY schedule.name

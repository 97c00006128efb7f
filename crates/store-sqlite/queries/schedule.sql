-- One schedule with its input, for people.
-- Index: the primary keys of schedule and task.
-- Concurrency: a snapshot.
SELECT schedule.id, schedule.name, task.id, schedule.spec, schedule.priority, schedule.input IS NOT NULL,
       schedule.revision, schedule.since, schedule.paused_at, schedule.paused_by, schedule.pause_note,
       schedule.skip_until, schedule.runs, schedule.failures, schedule.last_success, schedule.namespace,
       schedule.calendars, schedule.created_at, schedule.created_by, schedule.changed_at, schedule.changed_by,
       schedule.input
FROM schedule CROSS JOIN task ON task.number = schedule.task
WHERE schedule.shard = ?1 AND schedule.id = ?2

-- One schedule with everything.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT schedule.id, schedule.name, schedule.task, schedule.spec, schedule.priority, schedule.input IS NOT NULL,
       schedule.revision, schedule.since, schedule.paused_at, schedule.paused_by, schedule.pause_note, schedule.skip_until,
       schedule.runs, schedule.failures, schedule.last_success, schedule.namespace, schedule.calendars::text, schedule.created_at, schedule.created_by,
       schedule.changed_at, schedule.changed_by, schedule.input
FROM schedule WHERE shard = $1 AND id = $2

-- The schedules that refer to a calendar, of all shards, after an id, for their owners, in order of id.
-- Guarantees: inputs are not read.
-- Index: the primary key of calendar_use, in its order, and that of schedule; CROSS JOIN keeps this order.
-- Concurrency: a snapshot.
SELECT schedule.id, schedule.name, task.id, schedule.spec, schedule.priority, schedule.input IS NOT NULL,
       schedule.revision, schedule.since, schedule.paused_at, schedule.paused_by, schedule.pause_note,
       schedule.skip_until, schedule.runs, schedule.failures, schedule.last_success, schedule.namespace
FROM calendar_use
CROSS JOIN schedule ON schedule.shard = calendar_use.shard AND schedule.id = calendar_use.schedule
CROSS JOIN task ON task.number = schedule.task
WHERE calendar_use.namespace = ?4 AND calendar_use.calendar = ?1 AND calendar_use.schedule > ?2
ORDER BY calendar_use.schedule LIMIT ?3

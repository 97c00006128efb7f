-- The schedules of a shard after an id, in order of id, as their owner keeps them.
-- Guarantees: inputs are not read.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot; only the owner changes them.
SELECT schedule.id, schedule.name, schedule.task, schedule.spec, schedule.priority, schedule.input IS NOT NULL,
       schedule.revision, schedule.since, schedule.paused_at, schedule.paused_by, schedule.pause_note, schedule.skip_until,
       schedule.runs, schedule.failures, schedule.last_success, schedule.namespace
FROM schedule WHERE shard = $1 AND id > $2
ORDER BY id LIMIT $3

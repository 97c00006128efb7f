-- The schedules of a shard after an id, for its owner, in order of id.
-- Guarantees: inputs are not read.
-- Index: the primary key of schedule, in its order; CROSS JOIN keeps task from going first.
-- Concurrency: a snapshot.
SELECT schedule.id, schedule.name, task.id, schedule.spec, schedule.priority, schedule.input IS NOT NULL,
       schedule.revision, schedule.since, schedule.paused_at, schedule.paused_by, schedule.pause_note,
       schedule.skip_until, schedule.runs, schedule.failures, schedule.last_success, schedule.namespace
FROM schedule CROSS JOIN task ON task.number = schedule.task
WHERE schedule.shard = ?1 AND schedule.id > ?2
ORDER BY schedule.id LIMIT ?3

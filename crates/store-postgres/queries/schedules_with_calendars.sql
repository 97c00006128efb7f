-- The schedules that refer to any of these calendars, after an id, in order of id, as their owner keeps them.
-- Guarantees: inputs are not read.
-- Index: the primary key of calendar_use, in its order for each calendar; that of schedule.
-- Concurrency: a snapshot.
SELECT schedule.id, schedule.name, schedule.task, schedule.spec, schedule.priority, schedule.input IS NOT NULL,
       schedule.revision, schedule.since, schedule.paused_at, schedule.paused_by, schedule.pause_note, schedule.skip_until,
       schedule.runs, schedule.failures, schedule.last_success, schedule.namespace
FROM (
    SELECT DISTINCT found.shard, found.schedule FROM unnest($1::text[], $4::integer[]) AS asked (calendar, namespace)
    CROSS JOIN LATERAL (
        SELECT calendar_use.shard, calendar_use.schedule FROM calendar_use
        WHERE calendar_use.namespace = asked.namespace AND calendar_use.calendar = asked.calendar AND calendar_use.schedule > $2
        ORDER BY calendar_use.schedule LIMIT $3
    ) AS found
    ORDER BY found.schedule, found.shard LIMIT $3
) AS users
JOIN schedule ON schedule.shard = users.shard AND schedule.id = users.schedule
ORDER BY schedule.id

-- Remembers which calendars schedules refer to. One that was not stored is left out.
-- Index: the primary keys.
-- Concurrency: under the shards' fences, after the schedules were stored.
INSERT INTO calendar_use (calendar, schedule, shard, name, namespace)
SELECT new.calendar, schedule.id, schedule.shard, schedule.name, schedule.namespace
FROM unnest($1::smallint[], $2::uuid[], $3::text[]) AS new (shard, id, calendar)
JOIN schedule ON schedule.shard = new.shard AND schedule.id = new.id AND schedule.calendars ? new.calendar
ON CONFLICT DO NOTHING

-- Forgets which calendars schedules refer to.
-- Index: calendar_use_schedule.
-- Concurrency: under the shards' fences, before the schedules change.
DELETE FROM calendar_use USING unnest($1::smallint[], $2::uuid[]) AS old (shard, id)
WHERE calendar_use.schedule = old.id

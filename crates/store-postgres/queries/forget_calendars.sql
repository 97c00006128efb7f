-- Schedules are about to be edited or dropped and refer to no calendar for now.
-- Index: the primary keys.
-- Concurrency: under the shards' fences.
DELETE FROM calendar_use USING (
    SELECT schedule.id, schedule.namespace, jsonb_array_elements_text(schedule.calendars) AS calendar
    FROM unnest($1::smallint[], $2::uuid[]) AS old (shard, id)
    JOIN schedule ON schedule.shard = old.shard AND schedule.id = old.id
) AS former
WHERE calendar_use.namespace = former.namespace AND calendar_use.calendar = former.calendar AND calendar_use.schedule = former.id

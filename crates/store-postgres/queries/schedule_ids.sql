-- The ids of schedules with these names.
-- Index: schedule_name.
-- Concurrency: a snapshot.
SELECT name, id FROM schedule WHERE name = ANY ($1::text[])

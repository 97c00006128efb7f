-- The ids of schedules with these names.
-- Index: schedule_name.
-- Concurrency: a snapshot.
SELECT name, id FROM schedule WHERE namespace = $2 AND name = ANY ($1::text[])

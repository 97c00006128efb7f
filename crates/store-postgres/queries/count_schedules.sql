-- How many schedules a namespace has.
-- Index: schedule_name.
-- Concurrency: a snapshot.
SELECT count(*) FROM schedule WHERE namespace = $1

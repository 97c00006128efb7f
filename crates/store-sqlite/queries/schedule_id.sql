-- Which schedule has a name.
-- Index: schedule_name, which holds the id as well.
-- Concurrency: a snapshot.
SELECT id FROM schedule WHERE name = ?1

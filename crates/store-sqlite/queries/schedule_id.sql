-- Which schedule of a namespace has a name.
-- Index: schedule_name, which holds the id as well.
-- Concurrency: a snapshot.
SELECT id FROM schedule WHERE namespace = ?2 AND name = ?1

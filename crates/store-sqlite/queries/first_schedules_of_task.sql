-- The first names of the schedules of a task that has very many, in order.
-- Index: schedule_name, in its order. Reads through the schedules before the last that it finds.
-- Concurrency: a snapshot.
SELECT name FROM schedule INDEXED BY schedule_name WHERE namespace = ?3 AND task = ?1 ORDER BY name LIMIT ?2

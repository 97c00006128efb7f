-- The names of some schedules that refer to a calendar, in order.
-- Index: calendar_use_name, in its order.
-- Concurrency: run by the writer in the transaction that removes the calendar.
SELECT name FROM calendar_use WHERE namespace = ?3 AND calendar = ?1 ORDER BY name LIMIT ?2

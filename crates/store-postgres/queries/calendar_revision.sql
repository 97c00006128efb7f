-- The revision of one calendar.
-- Index: the primary key.
-- Concurrency: a snapshot; what it says stays true where changes of calendars are held off (lock_count).
SELECT revision FROM calendar WHERE namespace = $2 AND name = $1

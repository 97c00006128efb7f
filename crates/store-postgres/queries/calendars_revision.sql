-- The largest revision of a calendar, or nothing.
-- Index: none; they are few.
-- Concurrency: a snapshot.
SELECT max(revision) FROM calendar

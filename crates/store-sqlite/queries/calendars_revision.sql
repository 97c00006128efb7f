-- The largest revision of a calendar; 0 without any.
-- Index: the primary key, of which it reads the last.
-- Concurrency: a snapshot.
SELECT coalesce(max(revision), 0) FROM calendar

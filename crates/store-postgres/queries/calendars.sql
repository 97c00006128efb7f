-- All calendars in order of name.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT name, revision, changed_at, changed_by, dates FROM calendar ORDER BY name

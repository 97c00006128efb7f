-- All calendars in order of name. They are few.
-- Index: the unique name, in its order.
-- Concurrency: a snapshot.
SELECT name, dates, revision, changed_at, changed_by FROM calendar ORDER BY name

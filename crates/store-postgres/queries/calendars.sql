-- All calendars in order of name.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT name, revision, changed_at, changed_by, dates, namespace FROM calendar
WHERE $1::integer IS NULL OR namespace = $1 ORDER BY namespace, name

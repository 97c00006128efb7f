-- The calendars of a namespace, or all of them, in order of namespace and name. They are few.
-- Index: UNIQUE (namespace, name), in its order; all of it is read.
-- Concurrency: a snapshot.
SELECT name, dates, revision, changed_at, changed_by, namespace FROM calendar WHERE ?1 IS NULL OR namespace = ?1 ORDER BY namespace, name

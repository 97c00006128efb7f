-- All rules in order of name. They are few.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT name, spec, revision, created_at, created_by, changed_at, changed_by, version, state
FROM notification_rule ORDER BY name

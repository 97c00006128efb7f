-- All rules in order of name.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT name, spec, revision, created_at, created_by, changed_at, changed_by, state, version, namespace
FROM notification_rule WHERE $1::integer IS NULL OR namespace = $1 ORDER BY namespace, name

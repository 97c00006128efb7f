-- The rules of a namespace, or all of them, in order of namespace and name. They are few.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT name, spec, revision, created_at, created_by, changed_at, changed_by, version, state, namespace
FROM notification_rule WHERE ?1 IS NULL OR namespace = ?1 ORDER BY namespace, name

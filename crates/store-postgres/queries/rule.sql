-- A rule.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT name, spec, revision, created_at, created_by, changed_at, changed_by, state, version, namespace
FROM notification_rule WHERE namespace = $2 AND name = $1

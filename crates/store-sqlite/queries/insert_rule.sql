-- Stores a new rule.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO notification_rule (name, spec, revision, created_at, created_by, changed_at, changed_by, version, namespace)
VALUES (?1, ?2, ?3, ?4, ?5, ?4, ?5, ?6, ?7)

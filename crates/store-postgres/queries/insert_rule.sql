-- Stores a new rule, unless there are as many as there can be.
-- Guarantees: one row, or none if there is no room.
-- Index: the primary key, whose entries are counted.
-- Concurrency: after lock_count, so that the number stays true.
INSERT INTO notification_rule (name, spec, created_at, created_by, changed_at, changed_by, revision, version, namespace)
SELECT $1, $2, $3, $4, $3, $4, 1, $6, $7 WHERE (SELECT count(*) FROM notification_rule) < $5

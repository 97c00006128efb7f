-- Stores a new rule, unless there are as many as there can be, of its namespace or of all.
-- Guarantees: one row, or none if there is no room.
-- Index: the primary key, whose entries are counted.
-- Concurrency: after lock_count, so that the number stays true.
INSERT INTO notification_rule (name, spec, created_at, created_by, changed_at, changed_by, revision, version, namespace)
SELECT $1, $2, $3, $4, $3, $4, 1, $6, $7 WHERE (SELECT count(*) < $8 AND count(*) FILTER (WHERE namespace = $7) < $5 FROM notification_rule)

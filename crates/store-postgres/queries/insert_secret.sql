-- Stores a new secret, unless its namespace has as many as it can have.
-- Guarantees: one row, or none if there is no room.
-- Index: the primary key, whose entries are counted.
-- Concurrency: after lock_count, so that the number stays true.
INSERT INTO secret (namespace, name, revision, created_at, changed_at, created_by, changed_by, sealed)
SELECT $1, $2, 1, $3, $3, $4, $4, $5 WHERE (SELECT count(*) FROM secret WHERE namespace = $1) < $6

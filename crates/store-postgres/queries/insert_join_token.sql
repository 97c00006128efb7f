-- Stores a new join token, unless there are as many as there can be.
-- Guarantees: one row, or none if there is no room.
-- Index: the primary key, whose entries are counted.
-- Concurrency: after bump_enrolments, so that the number stays true.
INSERT INTO join_token (id, secret_sha256, scope, uses_max, uses, created_at, created_by, expires_at, revoked_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 WHERE (SELECT count(*) FROM join_token) < $10

-- Stores a worker that joins, unless there are as many as there can be.
-- Guarantees: one row, or none if there is no room.
-- Index: the primary key, whose entries are counted.
-- Concurrency: after bump_enrolments, so that the number stays true.
INSERT INTO enrolment (id, join_token, name, scope, key_sha256, enrolled_at, renewed_at, expires_at, revoked_at, revision)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10 WHERE (SELECT count(*) FROM enrolment) < $11

-- A worker that joined and was not revoked.
-- Index: the primary key.
-- Concurrency: after bump_enrolments, which all who change one wait for.
SELECT id, join_token, name, scope, key_sha256, enrolled_at, renewed_at, expires_at, revoked_at, revision FROM enrolment WHERE id = $1 AND revoked_at IS NULL

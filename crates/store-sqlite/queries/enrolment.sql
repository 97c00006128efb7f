-- A worker that joined and was not revoked.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
SELECT id, join_token, name, scope, key_sha256, enrolled_at, renewed_at, expires_at, revoked_at, revision FROM enrolment WHERE id = ?1 AND revoked_at IS NULL

-- The workers that joined with a token and were not revoked.
-- Index: enrolment_key.
-- Concurrency: only the writer runs it.
SELECT id, join_token, name, scope, key_sha256, enrolled_at, renewed_at, expires_at, revoked_at, revision FROM enrolment WHERE join_token = ?1 AND revoked_at IS NULL

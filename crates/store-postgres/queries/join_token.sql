-- One join token.
-- Index: the primary key.
-- Concurrency: a snapshot, or of its latest version after bump_enrolments, which all who change one wait for.
SELECT id, secret_sha256, scope, uses_max, uses, created_at, created_by, expires_at, revoked_at FROM join_token WHERE id = $1

-- One join token.
-- Index: the primary key.
-- Concurrency: a snapshot; run by the writer in the transaction that uses it, too.
SELECT id, secret_sha256, scope, uses_max, uses, created_at, created_by, expires_at, revoked_at FROM join_token WHERE id = ?1

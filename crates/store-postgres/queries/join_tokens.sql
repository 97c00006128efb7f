-- All join tokens, the oldest first.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT id, secret_sha256, scope, uses_max, uses, created_at, created_by, expires_at, revoked_at FROM join_token ORDER BY id LIMIT $1

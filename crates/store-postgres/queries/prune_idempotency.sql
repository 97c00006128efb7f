-- Keys that expired, so many at once.
-- Index: idempotency_expiry.
-- Concurrency: a key that is used again meanwhile is looked at again once its lock is free, and stays.
DELETE FROM idempotency WHERE expires_at <= $1 AND (namespace, key) IN (
    SELECT namespace, key FROM idempotency WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
)

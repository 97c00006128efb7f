-- Keys that expired, so many at once.
-- Index: idempotency_expiry.
-- Concurrency: only the writer runs it. A key that is still there is ignored once it has expired.
DELETE FROM idempotency WHERE rowid IN (
    SELECT rowid FROM idempotency WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
)

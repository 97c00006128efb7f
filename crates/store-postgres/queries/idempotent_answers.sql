-- The answers kept under keys, with the times at which they expire.
-- Index: the primary key.
-- Concurrency: a snapshot. A key may be used right after it; storing looks again.
SELECT key, fingerprint, answer, expires_at FROM idempotency WHERE key = ANY ($1::text[])

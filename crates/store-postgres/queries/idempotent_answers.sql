-- The answers kept under keys, with the times at which they expire.
-- Index: the primary key.
-- Concurrency: a snapshot. A key may be used right after it; storing looks again.
SELECT idempotency.key, fingerprint, answer, expires_at, idempotency.namespace
FROM unnest($1::text[], $2::integer[]) AS wanted (key, namespace)
JOIN idempotency ON idempotency.namespace = wanted.namespace AND idempotency.key = wanted.key

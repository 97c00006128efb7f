-- Keeps answers under their keys; one that has expired gives way.
-- Guarantees: durable with the jobs they tell of, or not at all. An error unless every key is free.
-- Index: the primary key.
-- Concurrency: of two who use a key at once the second waits for the first. Keys come in order, so that two groups
-- do not wait for each other.
WITH kept AS (
    INSERT INTO idempotency (key, fingerprint, answer, expires_at, namespace)
    SELECT key, fingerprint, answer, expires_at, namespace
    FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bigint[], $6::integer[])
        AS new (key, fingerprint, answer, expires_at, namespace)
    ON CONFLICT (namespace, key) DO UPDATE SET
        fingerprint = excluded.fingerprint, answer = excluded.answer, expires_at = excluded.expires_at
    WHERE idempotency.expires_at <= $5::bigint
    RETURNING 1
)
SELECT 1 / (count(*) = cardinality($1::text[]))::int FROM kept

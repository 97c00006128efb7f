-- Takes from the time of a namespace, unless it is too far ahead. No row: it is.
-- Guarantees: the time never goes back.
-- Index: the primary key.
-- Concurrency: of two servers at once, the second waits for the first and then looks again.
INSERT INTO submission_rate AS rate (namespace, paid_until) VALUES ($1, $3::bigint + $2::bigint)
ON CONFLICT (namespace) DO UPDATE SET paid_until = greatest(rate.paid_until, $3) + $2
WHERE rate.paid_until < $3 + $4::bigint
RETURNING paid_until

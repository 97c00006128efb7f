-- Lines of the audit log after a number, in order.
-- Guarantees: at most so many.
-- Index: the primary key, in order.
-- Concurrency: only reads.
SELECT seq, at, line, hash FROM audit WHERE seq > $1::bigint ORDER BY seq LIMIT $2::bigint

-- Lines of the audit log before a number, the latest first.
-- Guarantees: at most so many.
-- Index: the primary key, backwards.
-- Concurrency: only reads.
SELECT seq, at, line, hash FROM audit WHERE seq < $1::bigint ORDER BY seq DESC LIMIT $2::bigint

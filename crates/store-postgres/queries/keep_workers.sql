-- Remembers workers, or renews what is known of them.
-- Guarantees: one row for each worker, with its first and its last time. One that has left stays so. The rest is as told
-- with the last time.
-- Index: the primary key; worker_last_seen follows.
-- Concurrency: rows are locked in the order given, which is by id.
INSERT INTO worker AS known (id, name, host, version, first_seen_at, last_seen_at, left_at)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
ON CONFLICT (id) DO UPDATE SET
    name = CASE WHEN excluded.last_seen_at >= known.last_seen_at THEN excluded.name ELSE known.name END,
    host = CASE WHEN excluded.last_seen_at >= known.last_seen_at THEN excluded.host ELSE known.host END,
    version = CASE WHEN excluded.last_seen_at >= known.last_seen_at THEN excluded.version ELSE known.version END,
    left_at = greatest(known.left_at, excluded.left_at),
    first_seen_at = least(known.first_seen_at, excluded.first_seen_at),
    last_seen_at = greatest(known.last_seen_at, excluded.last_seen_at)

-- Says that a server lives.
-- Guarantees: one row for each server, the newest.
-- Index: the primary key.
-- Concurrency: each server writes its own row.
INSERT INTO member (id, address, version, roles, started_at, seen_at, workers, running, lag, zone_data)
VALUES ($1, $2, $3, $4, $5, coalesce($6::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), $7, $8, $9, $10)
ON CONFLICT (id) DO UPDATE SET
    address = excluded.address, version = excluded.version, roles = excluded.roles, started_at = excluded.started_at,
    seen_at = excluded.seen_at, workers = excluded.workers, running = excluded.running, lag = excluded.lag,
    zone_data = excluded.zone_data

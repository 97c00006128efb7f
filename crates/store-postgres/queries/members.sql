-- All servers that were not forgotten, in order of id.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT id, address, version, roles, started_at, seen_at, workers, running, lag, zone_data FROM member ORDER BY id

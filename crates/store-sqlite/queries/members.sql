-- All servers that were not forgotten, in order of id.
-- Index: none; there are few.
-- Concurrency: sees one state of the store.
SELECT id, address, version, roles, started_at, seen_at, workers, running, lag, zone_data FROM member ORDER BY id

-- Says that a server lives.
-- Guarantees: one row for each server, the newest.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT OR REPLACE INTO member (id, address, version, roles, started_at, seen_at, workers, running, lag, zone_data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

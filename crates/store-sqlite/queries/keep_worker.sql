-- Remembers a worker, or renews what is known of it.
-- Guarantees: one row for each worker, with its first and its last time. One that has left stays so. The rest is as told
-- with the last time.
-- Index: the primary key; worker_last_seen follows.
-- Concurrency: only the writer runs it.
INSERT INTO worker (id, name, host, version, first_seen_at, last_seen_at, left_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO UPDATE SET
    name = CASE WHEN excluded.last_seen_at >= last_seen_at THEN excluded.name ELSE name END,
    host = CASE WHEN excluded.last_seen_at >= last_seen_at THEN excluded.host ELSE host END,
    version = CASE WHEN excluded.last_seen_at >= last_seen_at THEN excluded.version ELSE version END,
    left_at = coalesce(max(left_at, excluded.left_at), left_at, excluded.left_at),
    first_seen_at = min(first_seen_at, excluded.first_seen_at),
    last_seen_at = max(last_seen_at, excluded.last_seen_at)

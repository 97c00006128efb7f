-- Workers that were last seen since a time, the latest first.
-- Index: worker_last_seen, backwards.
-- Concurrency: a snapshot.
SELECT id, name, host, version, first_seen_at, last_seen_at, left_at
FROM worker WHERE last_seen_at >= ?1 ORDER BY last_seen_at DESC, id DESC LIMIT ?2

-- What is known of some workers.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT id, name, host, version, first_seen_at, last_seen_at, left_at FROM worker WHERE id = ANY ($1::uuid[])

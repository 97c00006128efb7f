-- The last report of a server. Nothing is changed by one that comes after a later one.
-- Index: the primary key.
-- Concurrency: after lock_count, so that there is one report at a time.
INSERT INTO running_server AS known (server, seq, shards) VALUES ($1, $2, $3)
ON CONFLICT (server) DO UPDATE SET seq = excluded.seq, shards = excluded.shards WHERE known.seq < excluded.seq

-- The last report of a server. Nothing is changed by one that comes after a later one.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO running_server (server, seq, shards) VALUES (?1, ?2, ?3)
ON CONFLICT (server) DO UPDATE SET seq = excluded.seq, shards = excluded.shards WHERE seq < excluded.seq

-- Keeps what the servers of this store know each other by, unless there is one.
-- Index: the primary key.
-- Concurrency: of two who ask at once the second waits for the first and keeps nothing.
INSERT INTO meta (key, value) VALUES ('cluster_secret', encode($1, 'hex')) ON CONFLICT (key) DO NOTHING

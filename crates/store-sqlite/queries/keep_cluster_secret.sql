-- Stores what the servers know each other by, if there is nothing yet.
-- Guarantees: the first one stays for ever.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO meta (key, value) VALUES ('cluster_secret', ?1) ON CONFLICT (key) DO NOTHING

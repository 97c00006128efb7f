-- Commits a change that nobody reads.
-- Guarantees: whoever gets an answer knows that a write succeeded just now.
-- Index: the primary key.
-- Concurrency: one row for all servers; those that probe at the same time wait for each other's commit.
INSERT INTO meta (key, value) VALUES ('probe', '')
ON CONFLICT (key) DO UPDATE SET value = excluded.value

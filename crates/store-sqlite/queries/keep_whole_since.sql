-- Remembers from which epoch on nothing is missing from the records of starts and ends.
-- Guarantees: all later starts have this epoch or a higher one.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction that raises the epochs.
INSERT INTO meta (key, value) VALUES ('whole_since', (SELECT max(epoch) FROM shard))
ON CONFLICT (key) DO UPDATE SET value = excluded.value

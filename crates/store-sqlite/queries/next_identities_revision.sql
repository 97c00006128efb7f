-- The number of the change that is under way.
-- Guarantees: one more than any before.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE meta SET value = value + 1 WHERE key = 'identities' RETURNING value

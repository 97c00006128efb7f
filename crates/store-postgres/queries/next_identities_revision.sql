-- The number of the change that is under way.
-- Guarantees: one more than any before, and nobody sees a later one before this.
-- Index: the primary key.
-- Concurrency: locks the row until the transaction has ended, so that changes come one after the other: what is counted
-- or compared after this stays true until then.
UPDATE meta SET value = (value::bigint + 1)::text WHERE key = 'identities' RETURNING value::bigint

-- Raises the epochs of all shards into a new generation: the next one, or that of this second if it is higher.
-- Guarantees: every shard has the same epoch afterwards, above all epochs that the database knows.
-- Index: none; there are few shards.
-- Concurrency: only the writer runs it, before anybody else.
UPDATE shard SET epoch = max((SELECT max(epoch) >> 20 FROM shard) + 1, ?1) << 20

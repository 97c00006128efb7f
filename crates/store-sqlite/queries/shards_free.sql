-- Shards whose lease is over or was given up, lowest first.
-- Index: none; there are at most 1,024 shards.
-- Concurrency: run by the writer in the transaction that takes them.
SELECT id FROM shard WHERE owner IS NULL OR lease_until <= ?1 ORDER BY id LIMIT ?2

-- Gives up what a server owns. The epoch is raised by whoever takes the shard.
-- Index: none; there are at most 1,024 shards.
-- Concurrency: only the writer runs it.
UPDATE shard SET owner = NULL, lease_until = 0 WHERE owner = ?1

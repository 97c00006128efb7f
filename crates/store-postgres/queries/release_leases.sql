-- Gives up what a server owns. The epoch is raised by whoever takes the shard.
-- Index: none; there are at most 1,024 shards.
-- Concurrency: does not wait for the fences of batches: until the shard is taken they still hold.
UPDATE shard SET owner = NULL, lease_until = 0 WHERE owner = $1

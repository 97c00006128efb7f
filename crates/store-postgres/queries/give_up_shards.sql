-- Gives up these shards, as far as the server owns them. The epoch is raised by whoever takes them.
-- Index: the primary key.
-- Concurrency: does not wait for the fences of batches: until the shard is taken they still hold.
UPDATE shard SET owner = NULL, lease_until = 0 WHERE id = ANY ($2::smallint[]) AND owner = $1

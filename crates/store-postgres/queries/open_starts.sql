-- Every record of starts of a shard, oldest first.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot; the new owner reads it after its epoch is durable, so nothing is added behind it.
SELECT epoch, seq, server, starts FROM start_batch WHERE shard = $1 ORDER BY epoch, seq

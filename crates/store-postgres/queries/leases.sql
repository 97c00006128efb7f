-- All shards and who has them.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT id, epoch, owner, lease_until FROM shard ORDER BY id

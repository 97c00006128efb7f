-- All shards and who has them.
-- Index: none; there are at most 1,024 shards.
-- Concurrency: sees one state of the store.
SELECT id, epoch, owner, lease_until FROM shard ORDER BY id

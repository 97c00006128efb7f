-- All shards and who has them, and the table's own number: that of a restored dump is another.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT id, epoch, owner, lease_until, tableoid FROM shard ORDER BY id

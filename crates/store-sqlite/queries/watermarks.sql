-- Up to where all planned times of each shard have their verdicts. Shards are few.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT id, watermark FROM shard WHERE watermark > 0 ORDER BY id

-- Up to where all planned times of each shard have their verdicts, in order of shard.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT shard, at FROM watermark ORDER BY shard

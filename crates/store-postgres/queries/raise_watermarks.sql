-- Remembers up to where all planned times of shards have their verdicts. Never goes back.
-- Index: the primary key.
-- Concurrency: under the shards' fences.
INSERT INTO watermark (shard, at)
SELECT * FROM unnest($1::smallint[], $2::bigint[])
ON CONFLICT (shard) DO UPDATE SET at = excluded.at WHERE watermark.at < excluded.at

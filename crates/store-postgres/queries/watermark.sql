-- Up to where all planned times of a shard have their verdicts.
-- Index: the primary key.
-- Concurrency: in the snapshot of a takeover.
SELECT at FROM watermark WHERE shard = $1

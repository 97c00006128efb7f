-- Up to where all planned times of a shard have their verdicts.
-- Index: the primary key.
-- Concurrency: a snapshot, the same as for what is queued and tracked.
SELECT watermark FROM shard WHERE id = ?1

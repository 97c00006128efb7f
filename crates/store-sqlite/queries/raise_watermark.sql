-- All planned times of a shard up to here have their verdicts.
-- Guarantees: it never goes back.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
UPDATE shard SET watermark = ?2 WHERE id = ?1 AND watermark < ?2

-- The run of a planned time has succeeded.
-- Guarantees: a later one that is known stays; a schedule that is gone is passed over.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
UPDATE schedule SET last_success = ?3
WHERE shard = ?1 AND id = ?2 AND (last_success IS NULL OR last_success < ?3)

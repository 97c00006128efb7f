-- Removes a record of starts that says nothing any more. One that is gone already is fine.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
DELETE FROM start_batch WHERE shard = ?1 AND epoch = ?2 AND seq = ?3

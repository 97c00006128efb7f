-- Removes a job from the hot table, after it was copied into history.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
DELETE FROM job WHERE shard = ?1 AND due_at = ?2 AND id = ?3

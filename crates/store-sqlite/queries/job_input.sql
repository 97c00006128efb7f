-- The whole input of a waiting or running job.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT input FROM job WHERE shard = ?1 AND due_at = ?2 AND id = ?3

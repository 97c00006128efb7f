-- The tasks of what one shard should have ended before a time, with repetitions.
-- Index: the primary key of job, in its order.
-- Concurrency: run by the writer in the transaction that removes tasks.
SELECT task FROM job WHERE shard = ?1 AND due_at < ?2 LIMIT ?3

-- The number that a job's next start will carry; no row when the job is not there.
-- Index: the primary key.
-- Concurrency: run by the writer in the transaction of the write that must fit.
SELECT next_attempt FROM job WHERE shard = ?1 AND due_at = ?2 AND id = ?3

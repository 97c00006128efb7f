-- The interned task of a namespace with this content.
-- Index: task_digest, whose condition holds for any digest.
-- Concurrency: run by the writer in the transaction of the insert.
SELECT id, number FROM task WHERE namespace = ?2 AND digest = ?1

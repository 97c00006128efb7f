-- The queues of a namespace that is deleted.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction that deletes the namespace.
DELETE FROM queue WHERE namespace = ?1

-- The queues of a namespace that is deleted.
-- Index: the primary key.
-- Concurrency: after bump_queues, in the transaction that deletes the namespace.
DELETE FROM queue WHERE namespace = $1

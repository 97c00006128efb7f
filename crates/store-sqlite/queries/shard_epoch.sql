-- The fence: the epoch under which a shard may be written.
-- Index: the primary key.
-- Concurrency: run by the writer in the transaction that it protects; BEGIN IMMEDIATE is the lock.
SELECT epoch FROM shard WHERE id = ?1

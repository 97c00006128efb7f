-- Gives up one shard, if the server owns it. The epoch is raised by whoever takes the shard.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE shard SET owner = NULL, lease_until = 0 WHERE id = ?2 AND owner = ?1

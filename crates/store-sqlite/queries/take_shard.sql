-- Gives a shard to a server under the next epoch.
-- Guarantees: once this is durable, no batch under an older epoch commits.
-- Index: the primary key.
-- Concurrency: only the writer runs it, so no batch is between its fence and its commit.
UPDATE shard SET epoch = epoch + 1, owner = ?2, lease_until = ?3 WHERE id = ?1 RETURNING id, epoch

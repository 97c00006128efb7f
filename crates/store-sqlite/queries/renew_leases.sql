-- Prolongs what a server still owns, also a lease that is over and that nobody took.
-- Guarantees: epochs stay as they are.
-- Index: none; there are at most 1,024 shards.
-- Concurrency: only the writer runs it.
UPDATE shard SET lease_until = ?2 WHERE owner = ?1 RETURNING id, epoch

-- Prolongs what a server still owns, also a lease that is over and that nobody took.
-- Guarantees: epochs stay as they are. The table's own number tells whether a dump was restored since.
-- Index: none; there are at most 1,024 shards.
-- Concurrency: no key column changes, so it does not wait for the fences of batches, nor they for it.
UPDATE shard SET lease_until = coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + $2::bigint
WHERE owner = $1
RETURNING id, epoch, tableoid

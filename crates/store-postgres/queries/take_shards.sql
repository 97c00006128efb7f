-- Gives these shards to a server under higher epochs, although their leases may still run.
-- Guarantees: all of them, or no row if one is not there. Once this is durable, no batch under an older epoch commits.
-- Index: the primary key.
-- Concurrency: rows are locked FOR UPDATE in order, before they are changed: a plain UPDATE would not wait for
-- batches between their fence and their commit.
WITH held AS MATERIALIZED (
    SELECT id FROM shard WHERE id = ANY ($4::smallint[]) ORDER BY id FOR UPDATE
)
UPDATE shard SET
    epoch = greatest(shard.epoch + 1, coalesce($5::bigint, (SELECT value::bigint FROM meta WHERE key = 'generation')) << 20),
    owner = $1,
    lease_until = coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + $2::bigint
FROM held WHERE shard.id = held.id AND (SELECT count(*) FROM held) = cardinality($4::smallint[])
RETURNING shard.id, shard.epoch

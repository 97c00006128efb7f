-- Gives a server up to so many shards whose lease is over or was given up, lowest first, under higher epochs.
-- Guarantees: once this is durable, no batch under an older epoch commits. A generation begins at epochs that
-- none before it reached; see src/instance.rs.
-- Index: none; there are at most 1,024 shards.
-- Concurrency: rows are locked FOR UPDATE before they are changed, which waits for batches between their fence and
-- their commit; a row that is locked is left to the next call.
WITH free AS MATERIALIZED (
    SELECT id FROM shard
    WHERE owner IS NULL OR lease_until <= coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
    ORDER BY id LIMIT $4 FOR UPDATE SKIP LOCKED
)
UPDATE shard SET
    epoch = greatest(shard.epoch + 1, coalesce($5::bigint, (SELECT value::bigint FROM meta WHERE key = 'generation')) << 20),
    owner = $1,
    lease_until = coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + $2::bigint
FROM free WHERE shard.id = free.id
RETURNING shard.id, shard.epoch

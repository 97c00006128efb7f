-- Records everything that shards started in one batch, a row for each.
-- Guarantees: a second record of the same name is a constraint violation.
-- Also in apply_plain.sql: change both.
-- Index: the primary key.
-- Concurrency: under the shards' fences.
INSERT INTO start_batch (epoch, seq, server, shard, starts)
SELECT epoch, $3, $4, shard, starts
FROM unnest($1::smallint[], $2::bigint[], $5::bytea[]) AS new (shard, epoch, starts)

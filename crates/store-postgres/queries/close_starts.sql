-- Removes records of starts that say nothing any more. One that is gone already is fine.
-- Also in apply_plain.sql: change both.
-- Index: the primary key.
-- Concurrency: under the shards' fences.
DELETE FROM start_batch USING unnest($1::smallint[], $2::bigint[], $3::bigint[]) AS closed (shard, epoch, seq)
WHERE start_batch.shard = closed.shard AND start_batch.epoch = closed.epoch AND start_batch.seq = closed.seq

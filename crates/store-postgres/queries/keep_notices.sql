-- Keeps what people are to be told of a batch, in the order given.
-- Index: none is read.
-- Concurrency: under the shards' fences. Numbers of batches at the same time are mixed.
INSERT INTO notice (at, task, job, schedule, planned_at, lateness, count, shard, kind)
SELECT * FROM unnest(
    $1::bigint[], $2::uuid[], $3::uuid[], $4::uuid[], $5::bigint[], $6::bigint[], $7::integer[], $8::smallint[], $9::smallint[]
)

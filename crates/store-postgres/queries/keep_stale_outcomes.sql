-- Keeps outcomes that came too late. Workers repeat what was not acknowledged: the first one stays.
-- Index: the primary key.
-- Concurrency: under the shards' fences.
INSERT INTO stale_outcome (job, worker, at, attempt, outcome)
SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::integer[], $5::text[])
ON CONFLICT (job, attempt, worker) DO NOTHING

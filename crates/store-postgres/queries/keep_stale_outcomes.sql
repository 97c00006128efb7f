-- Keeps outcomes that came too late. Workers repeat what was not acknowledged: the first one stays. Of one attempt there are
-- 8 at most before the statement, whoever sends them.
-- Index: the primary key.
-- Concurrency: under the shards' fences.
INSERT INTO stale_outcome (job, worker, at, attempt, outcome)
SELECT late.job, late.worker, late.at, late.attempt, late.outcome
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::integer[], $5::text[]) AS late (job, worker, at, attempt, outcome)
WHERE (
    SELECT count(*) FROM stale_outcome AS kept WHERE kept.job = late.job AND kept.attempt = late.attempt
) < 8
ON CONFLICT (job, attempt, worker) DO NOTHING

-- The tasks of what should have ended before a time, with repetitions, so many of each shard.
-- Index: the primary key of job, in its order.
-- Concurrency: a snapshot taken after the unused tasks were locked.
SELECT found.task FROM generate_series(0, $1::integer - 1) AS every (shard)
CROSS JOIN LATERAL (
    SELECT job.task FROM job
    WHERE job.shard = every.shard::smallint AND (job.due_at, job.id) < ($2, '00000000-0000-0000-0000-000000000000'::uuid)
    ORDER BY job.due_at, job.id LIMIT $3
) AS found

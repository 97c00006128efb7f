-- Remembers that running jobs were asked to end; asking twice is asking once.
-- Guarantees: an error unless each job is at its key.
-- Index: the primary keys.
-- Concurrency: under the shards' fences.
WITH there AS MATERIALIZED (
    SELECT job.id
    FROM unnest($1::smallint[], $2::bigint[], $3::uuid[]) AS asked (shard, due_at, id)
    JOIN job ON job.shard = asked.shard AND job.due_at = asked.due_at AND job.id = asked.id
), kept AS (
    INSERT INTO cancel_request (job) SELECT id FROM there ON CONFLICT (job) DO NOTHING
)
SELECT 1 / (count(*) = cardinality($1::smallint[]))::int FROM there

-- An error unless each job is at its key and waits for this attempt.
-- Also in apply_plain.sql: change both.
-- Index: the primary key.
-- Concurrency: under the shards' fences, so that nobody else moves the rows.
SELECT 1 / (count(*) = cardinality($1::smallint[]))::int
FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::integer[]) AS wanted (shard, due_at, id, next_attempt)
JOIN job ON job.shard = wanted.shard AND job.due_at = wanted.due_at AND job.id = wanted.id
        AND job.next_attempt = wanted.next_attempt

-- Which of these jobs are at their keys and wait for this attempt: their places in the question, from 1.
-- Index: the primary key.
-- Concurrency: under the shards' fences, so that nobody else moves the rows.
SELECT wanted.place
FROM unnest($1::smallint[], $2::bigint[], $3::uuid[], $4::integer[])
    WITH ORDINALITY AS wanted (shard, due_at, id, next_attempt, place)
JOIN job ON job.shard = wanted.shard AND job.due_at = wanted.due_at AND job.id = wanted.id
        AND job.next_attempt = wanted.next_attempt

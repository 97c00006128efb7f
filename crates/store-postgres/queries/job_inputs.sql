-- The whole inputs of waiting or running jobs, each with its place in the question, from 1.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT wanted.place, job.input
FROM unnest($1::smallint[], $2::bigint[], $3::uuid[]) WITH ORDINALITY AS wanted (shard, due_at, id, place)
JOIN job ON job.shard = wanted.shard AND job.due_at = wanted.due_at AND job.id = wanted.id

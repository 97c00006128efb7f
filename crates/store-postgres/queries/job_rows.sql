-- Waiting or running jobs, for their owner, at known places, each with its place in the question, from 1, and
-- whether it was asked to end.
-- Guarantees: a long input is not read, only its length.
-- Index: the primary keys of job, task and cancel_request.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       CASE WHEN length(job.input) <= $4 THEN job.input END AS input, length(job.input) AS input_len, job.source, job.give_backs,
       wanted.place, EXISTS (SELECT 1 FROM cancel_request WHERE cancel_request.job = job.id)
FROM unnest($1::smallint[], $2::bigint[], $3::uuid[]) WITH ORDINALITY AS wanted (shard, due_at, id, place)
JOIN job ON job.shard = wanted.shard AND job.due_at = wanted.due_at AND job.id = wanted.id
JOIN task ON task.number = job.task

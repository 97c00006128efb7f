-- Waiting or running jobs, for lists, at known places, each with its place in the question, from 1.
-- Guarantees: inputs are not read.
-- Index: the primary keys of job, task and cancel_request.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       EXISTS (SELECT 1 FROM cancel_request WHERE cancel_request.job = job.id) AS cancel_requested,
       job.source, job.give_backs, job.namespace, wanted.place
FROM unnest($1::smallint[], $2::bigint[], $3::uuid[]) WITH ORDINALITY AS wanted (shard, due_at, id, place)
JOIN job ON job.shard = wanted.shard AND job.due_at = wanted.due_at AND job.id = wanted.id
JOIN task ON task.number = job.task

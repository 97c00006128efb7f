-- One waiting or running job, for people, where its id says or where it was moved to.
-- Index: the primary keys of job, task and cancel_request; job_moved, whose condition is in the second part.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       EXISTS (SELECT 1 FROM cancel_request WHERE cancel_request.job = job.id) AS cancel_requested,
       job.source, job.give_backs, job.namespace, job.input, job.requester
FROM job JOIN task ON task.number = job.task
WHERE job.shard = $1 AND job.due_at = $2 AND job.id = $3
UNION ALL
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       EXISTS (SELECT 1 FROM cancel_request WHERE cancel_request.job = job.id) AS cancel_requested,
       job.source, job.give_backs, job.namespace, job.input, job.requester
FROM job JOIN task ON task.number = job.task
WHERE job.id = $3 AND job.moved AND job.due_at <> $2

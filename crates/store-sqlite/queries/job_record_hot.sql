-- One waiting or running job, for people, at a known place.
-- Index: the primary keys of job, task and cancel_request.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       EXISTS (SELECT 1 FROM cancel_request WHERE cancel_request.job = job.id) AS cancel_requested,
       job.source, job.give_backs, job.namespace, job.input, job.requester
FROM job CROSS JOIN task ON task.number = job.task
WHERE job.shard = ?1 AND job.due_at = ?2 AND job.id = ?3

-- Hot jobs of one namespace other than the default one between two ids, both exclusive, so many of them, in order of id.
-- Index: job_namespace, in its order.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       EXISTS (SELECT 1 FROM cancel_request WHERE cancel_request.job = job.id) AS cancel_requested,
       job.source, job.give_backs, job.namespace, task.kind, task.queue
FROM job JOIN task ON task.number = job.task
WHERE job.namespace = $4 AND job.id > $1 AND job.id < $2
ORDER BY job.id LIMIT $3

-- Hot jobs of one namespace other than the default one between two ids, both exclusive. The caller appends the order and stops after a bounded
-- number of rows.
-- Index: job_namespace, in its order; CROSS JOIN keeps task from going first.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       EXISTS (SELECT 1 FROM cancel_request WHERE cancel_request.job = job.id) AS cancel_requested,
       job.source, job.give_backs, job.namespace, task.kind, task.queue, 0
FROM job CROSS JOIN task ON task.number = job.task
WHERE job.namespace = ?3 AND job.id > ?1 AND job.id < ?2

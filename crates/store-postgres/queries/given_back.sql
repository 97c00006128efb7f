-- Jobs that were given back, from one place in the order of `late_from` on and up to a time.
-- Index: job_given_back, in its order, whose condition is repeated here.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       EXISTS (SELECT 1 FROM cancel_request WHERE cancel_request.job = job.id) AS cancel_requested,
       job.source, job.give_backs, job.namespace, job.late_from
FROM job JOIN task ON task.number = job.task
WHERE job.late_from IS NOT NULL AND (job.late_from, job.id) > ($1, $2)
  AND (job.late_from, job.id) <= ($3, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
ORDER BY job.late_from, job.id LIMIT $4

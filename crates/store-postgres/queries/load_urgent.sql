-- As load, but only rows with a priority above zero.
-- Guarantees: a long input is not read, only its length.
-- Index: job_urgent, in its order; the condition on priority is its own, or it could not be used.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       CASE WHEN length(job.input) <= $6 THEN job.input END AS input, length(job.input) AS input_len, job.source, job.give_backs
FROM job JOIN task ON task.number = job.task
WHERE job.shard = $1 AND (job.due_at, job.id) > ($2, $3)
  AND (job.due_at, job.id) <= ($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid) AND job.priority > 0
ORDER BY job.due_at, job.id LIMIT $5

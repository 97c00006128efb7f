-- Rows of one shard after a key and due no later than a time, in order of (due time, id).
-- Guarantees: a long input is not read, only its length.
-- Index: the primary key of job, in its order; CROSS JOIN keeps task from going first.
-- Concurrency: a snapshot. A row that commits behind the cursor later is not seen; the owner sweeps.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       CASE WHEN length(job.input) <= ?6 THEN job.input END AS input, length(job.input) AS input_len, job.source, job.give_backs
FROM job CROSS JOIN task ON task.number = job.task
WHERE job.shard = ?1 AND (job.due_at, job.id) > (?2, ?3) AND job.due_at <= ?4
ORDER BY job.due_at, job.id LIMIT ?5

-- One waiting or running job, for its owner, at a known place.
-- Guarantees: a long input is not read, only its length.
-- Index: the primary keys of job and task.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       CASE WHEN length(job.input) <= ?4 THEN job.input END AS input, length(job.input) AS input_len, job.source, job.give_backs
FROM job CROSS JOIN task ON task.number = job.task
WHERE job.shard = ?1 AND job.due_at = ?2 AND job.id = ?3

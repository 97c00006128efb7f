-- One waiting or running job, for its owner, where its id says or where it was moved to.
-- Guarantees: a long input is not read, only its length.
-- Index: the primary keys of job and task; job_moved, whose condition is in the second part.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       CASE WHEN length(job.input) <= $4 THEN job.input END AS input, length(job.input) AS input_len, job.source, job.give_backs
FROM job JOIN task ON task.number = job.task
WHERE job.shard = $1 AND job.due_at = $2 AND job.id = $3
UNION ALL
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       CASE WHEN length(job.input) <= $4 THEN job.input END AS input, length(job.input) AS input_len, job.source, job.give_backs
FROM job JOIN task ON task.number = job.task
WHERE job.id = $3 AND job.moved AND job.due_at <> $2

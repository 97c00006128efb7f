-- Hot jobs of one shard between two keys, both exclusive. The caller appends the order, merges
-- the shards and stops after a bounded number of rows. The last column says that `list_moved` finds the job too.
-- Index: the primary key of job, in its order; CROSS JOIN keeps task from going first.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       EXISTS (SELECT 1 FROM cancel_request WHERE cancel_request.job = job.id) AS cancel_requested,
       job.source, job.give_backs, job.namespace, task.kind, task.queue,
       job.moved
FROM job CROSS JOIN task ON task.number = job.task
WHERE job.shard = ?1 AND (job.due_at, job.id) > (?2, ?3) AND (job.due_at, job.id) < (?4, ?5)

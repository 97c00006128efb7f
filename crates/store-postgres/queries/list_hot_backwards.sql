-- Hot jobs between two keys, both exclusive, so many of each shard; in order, backwards, within a shard.
-- The caller merges the shards. The last column says that `list_moved` finds the job too.
-- Index: the primary key of job, in its order backwards.
-- Concurrency: a snapshot.
SELECT found.* FROM generate_series(0, $1::integer - 1) AS every (shard)
CROSS JOIN LATERAL (
    SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
           job.submitted_at, job.tracing_id,
           EXISTS (SELECT 1 FROM cancel_request WHERE cancel_request.job = job.id) AS cancel_requested,
           job.source, job.give_backs, job.namespace, task.kind, task.queue,
           job.shard, job.moved
    FROM job JOIN task ON task.number = job.task
    WHERE job.shard = every.shard::smallint
      AND (job.due_at, job.id) > ($2, $3) AND (job.due_at, job.id) < ($4, $5)
    ORDER BY job.due_at DESC, job.id DESC LIMIT $6
) AS found

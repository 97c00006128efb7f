-- As settle, for what most jobs come to: they were never moved, and succeeded at once under this server, with no details. What
-- follows from that is not sent, which saves a fifth of the time.
-- Also in settle.sql and apply_plain.sql: change all three. Parameters: src/transitions/settle.rs.
-- Guarantees: an error unless each job is at its key with the attempt that is expected. Inputs never leave PostgreSQL.
-- Index: the primary key of job; in history that of the partition.
-- Concurrency: under the shards' fences, so that nobody else moves the rows.
WITH gone AS (
    DELETE FROM job USING unnest(
        $1::smallint[], $2::bigint[], $3::uuid[], $4::integer[], $5::bigint[], $6::integer[], $7::bigint[], $8::bigint[]
    ) AS done (shard, due_at, id, attempt, finished_at, worker, picked_up_at, started_at)
    WHERE job.shard = done.shard AND job.due_at = done.due_at AND job.id = done.id AND job.next_attempt = done.attempt
    RETURNING job.id, job.submitted_at, job.task, job.priority, job.tracing_id, job.input, job.source, job.namespace,
              job.requester,
              done.attempt, done.finished_at, done.worker, done.picked_up_at, done.started_at
), kept AS (
    INSERT INTO history (
        id, finished_at, submitted_at, task, picked_up_at, started_at, next_attempt, attempt, worker, server,
        failures, node_failures, priority, state, ending, early, tracing_id, input, source, namespace, requester
    )
    SELECT id, finished_at, submitted_at, task, picked_up_at, started_at, attempt + 1, attempt, worker, $9::integer,
           0, 0, priority, 1, 1, false, tracing_id, input, source, namespace, requester
    FROM gone
)
SELECT 1 / (count(*) = cardinality($1::smallint[]))::int FROM gone

-- Moves jobs into history with the ends that were decided.
-- Also in settle_plain.sql and apply_plain.sql, which serve most jobs: change all three. Parameters: src/transitions/settle.rs.
-- Guarantees: an error unless each job is at its key with the attempt that is expected. Inputs never leave PostgreSQL.
-- Index: the primary key of job; in history that of the partition.
-- Concurrency: under the shards' fences, so that nobody else moves the rows.
WITH gone AS (
    DELETE FROM job USING unnest(
        $1::smallint[], $2::bigint[], $3::uuid[], $4::integer[], $5::bigint[], $6::smallint[], $7::boolean[], $8::bigint[],
        $9::integer[], $10::smallint[], $11::smallint[], $12::integer[], $13::integer[], $14::integer[], $15::bigint[],
        $16::bigint[], $17::smallint[], $18::text[], $19::bytea[], $20::text[]
    ) AS done (
        shard, due_at, id, expected, finished_at, state, early, moved_to,
        next_attempt, failures, node_failures, attempt, worker, server, picked_up_at,
        started_at, ending, reason, output, details
    )
    WHERE job.shard = done.shard AND job.due_at = done.due_at AND job.id = done.id AND job.next_attempt = done.expected
    RETURNING job.id, job.submitted_at, job.task, job.priority, job.tracing_id, job.input, job.source, job.namespace, job.requester, done.finished_at, done.state,
              done.early, done.moved_to, done.next_attempt, done.failures, done.node_failures, done.attempt, done.worker,
              done.server, done.picked_up_at, done.started_at, done.ending, done.reason, done.output, done.details
), kept AS (
    INSERT INTO history (
        id, finished_at, submitted_at, task, picked_up_at, started_at, due_at, next_attempt, attempt, worker, server,
        failures, node_failures, priority, state, ending, early, tracing_id, reason, output, input, details, source,
        namespace, requester
    )
    SELECT id, finished_at, submitted_at, task, picked_up_at, started_at, moved_to, next_attempt, attempt, worker, server,
           failures, node_failures, priority, state, ending, early, tracing_id, reason, output, input, details, source,
           namespace, requester
    FROM gone
)
SELECT 1 / (count(*) = cardinality($1::smallint[]))::int FROM gone

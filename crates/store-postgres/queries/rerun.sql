-- Moves finished jobs back into the hot table, under new due times, and their last attempts to those that did not
-- end them; and records that.
-- Guarantees: the answer is the jobs that were there, or nothing if all were; with $8 an error unless all were. Inputs
-- never leave PostgreSQL; outputs are given up. A second record of the same attempt is a constraint violation.
-- Index: those on id of the partitions of history; the primary keys of node.
-- Concurrency: under the shards' fences. Retention may have removed a job before; then it is not there.
WITH taken AS (
    DELETE FROM history USING unnest(
        $1::uuid[], $2::smallint[], $3::bigint[], $4::boolean[], $5::integer[], $6::smallint[], $7::smallint[]
    ) AS again (id, shard, due_at, moved, next_attempt, failures, node_failures)
    WHERE history.id = again.id
    RETURNING history.id, history.state, history.submitted_at, history.task, history.priority, history.tracing_id, history.input,
              history.source, history.namespace, history.requester,
              history.attempt, history.worker, history.server, history.picked_up_at, history.started_at,
              history.finished_at, history.ending, history.reason, history.details, history.log_path, history.log_bytes,
              history.due_at AS was_due_at,
              again.shard, again.due_at, again.moved, again.next_attempt, again.failures, again.node_failures
), kept AS (
    INSERT INTO attempt (
        job, worker, server, picked_up_at, started_at, finished_at, attempt, ending, reason, details, log_path, log_bytes,
        due_at, namespace
    )
    SELECT taken.id, worker.id, server.id, picked_up_at, started_at, finished_at, attempt, ending, reason, details,
           log_path, log_bytes, was_due_at, namespace
    FROM taken JOIN node AS worker ON worker.number = taken.worker JOIN node AS server ON server.number = taken.server
    WHERE attempt IS NOT NULL
), noted AS (
    INSERT INTO rerun (job, at, state, next_attempt) SELECT id, due_at, state, next_attempt FROM taken
), waiting AS (
    INSERT INTO job (id, due_at, submitted_at, task, next_attempt, shard, failures, node_failures, priority, moved, tracing_id, input,
        source, namespace, requester)
    SELECT id, due_at, submitted_at, task, next_attempt, shard, failures, node_failures, priority, moved, tracing_id, input,
           source, namespace, requester
    FROM taken
)
SELECT CASE WHEN count(*) < cardinality($1::uuid[]) THEN coalesce(array_agg(id), '{}') END,
       1 / (count(*) = cardinality($1::uuid[]) OR NOT $8::boolean)::int
FROM taken

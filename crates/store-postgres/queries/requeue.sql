-- Moves jobs to other due times, with new counters.
-- Guarantees: an error unless each job is at its key with the attempt that is expected.
-- Index: the primary key; job_moved and job_given_back follow.
-- Concurrency: under the shards' fences, so that nobody else moves the rows.
WITH requeued AS (
    UPDATE job SET
        due_at = again.due_at, moved = again.moved, next_attempt = again.next_attempt,
        failures = again.failures, node_failures = again.node_failures,
        give_backs = again.give_backs, late_from = again.late_from
    FROM unnest(
        $1::smallint[], $2::bigint[], $3::uuid[], $4::integer[],
        $5::bigint[], $6::boolean[], $7::integer[], $8::smallint[], $9::smallint[], $10::text[], $11::bigint[]
    ) AS again (shard, was_due_at, id, expected, due_at, moved, next_attempt, failures, node_failures, give_backs, late_from)
    WHERE job.shard = again.shard AND job.due_at = again.was_due_at AND job.id = again.id
      AND job.next_attempt = again.expected
    RETURNING 1
)
SELECT 1 / (count(*) = cardinality($1::smallint[]))::int FROM requeued

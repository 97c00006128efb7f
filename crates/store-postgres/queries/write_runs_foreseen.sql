-- As write_runs, for steps that were worked out before the rows were locked.
-- Guarantees: an error unless each run has the state that its step was worked out from.
-- Index: the primary key; workflow_run_wake and workflow_run_ended follow.
-- Concurrency: locks the rows in the order given, which is that of id. Who waits for somebody else who changes a run looks at
-- its stamp again.
WITH written AS (
    UPDATE workflow_run SET status = new.status, state = '', packed = new.packed, stamp = new.stamp, wake_at = new.wake_at,
        ended_at = new.ended_at
    FROM unnest($1::uuid[], $2::smallint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
        AS new (id, status, packed, stamp, wake_at, ended_at, expected)
    WHERE workflow_run.id = new.id AND workflow_run.stamp = new.expected
    RETURNING 1
)
SELECT 1 / (count(*) = cardinality($1::uuid[]))::int FROM written

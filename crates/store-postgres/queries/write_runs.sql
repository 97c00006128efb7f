-- What steps made of runs.
-- Index: the primary key; workflow_run_wake and workflow_run_ended follow.
-- Concurrency: the rows are locked by lock_run or lock_runs before.
UPDATE workflow_run SET status = new.status, state = '', packed = new.packed, stamp = new.stamp, wake_at = new.wake_at, ended_at = new.ended_at
FROM unnest($1::uuid[], $2::smallint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS new (id, status, packed, stamp, wake_at, ended_at)
WHERE workflow_run.id = new.id

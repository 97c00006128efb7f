-- As lock_run, for all runs of a batch.
-- Index: the primary key.
-- Concurrency: in order of id, so that two transactions that lock several runs do not wait for each other.
SELECT id, namespace, workflow, version, made_at, made_by, input, tasks, status,
    coalesce(packed, convert_to(state, 'UTF8')) AS state FROM workflow_run
WHERE id = ANY ($1::uuid[]) ORDER BY id FOR UPDATE

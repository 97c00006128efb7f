-- Runs and the stamps of their states, to work out what follows before anything is locked.
-- Guarantees: those that are there.
-- Index: the primary key.
-- Concurrency: a snapshot. Who writes what follows sees by the stamp whether it still holds; see write_runs_foreseen.
SELECT id, namespace, workflow, version, made_at, made_by, input, tasks, status,
    coalesce(packed, convert_to(state, 'UTF8')) AS state, stamp FROM workflow_run
WHERE id = ANY ($1::uuid[])

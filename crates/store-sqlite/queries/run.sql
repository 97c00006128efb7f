-- One run.
-- Guarantees: no row if there is none.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT id, namespace, workflow, version, made_at, made_by, input, tasks, status,
    coalesce(packed, CAST(state AS BLOB)) AS state FROM workflow_run WHERE id = ?1

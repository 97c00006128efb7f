-- One run, if it is of this namespace.
-- Guarantees: no row if it is not. What is large in the row is not read then.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT id, namespace, workflow, version, made_at, made_by, input, tasks, status,
    coalesce(packed, CAST(state AS BLOB)) AS state FROM workflow_run
WHERE id = ?1 AND namespace = ?2

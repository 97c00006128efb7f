-- Runs of a workflow, the latest first, before one of them.
-- Guarantees: each once.
-- Index: workflow_run_of_workflow, backwards.
-- Concurrency: a snapshot.
SELECT id, namespace, workflow, version, made_at, made_by, input, tasks, status,
    coalesce(packed, CAST(state AS BLOB)) AS state FROM workflow_run WHERE namespace = ?1 AND id < ?2 AND workflow = ?4 ORDER BY id DESC LIMIT ?3

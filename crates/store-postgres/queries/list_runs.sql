-- Runs of a namespace, the latest first, before one of them.
-- Guarantees: each once.
-- Index: workflow_run_listed, backwards.
-- Concurrency: a snapshot.
SELECT id, namespace, workflow, version, made_at, made_by, input, tasks, status,
    coalesce(packed, convert_to(state, 'UTF8')) AS state FROM workflow_run WHERE namespace = $1 AND id < $2 ORDER BY id DESC LIMIT $3

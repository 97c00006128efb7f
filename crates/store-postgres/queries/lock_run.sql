-- One run, to be changed in this transaction.
-- Guarantees: no row if there is none.
-- Index: the primary key.
-- Concurrency: holds the row until the transaction ends, so that steps of one run follow each other. A batch locks its runs in
-- order of id.
SELECT id, namespace, workflow, version, made_at, made_by, input, tasks, status,
    coalesce(packed, convert_to(state, 'UTF8')) AS state FROM workflow_run WHERE id = $1 FOR UPDATE

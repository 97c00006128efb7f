-- Stores a run of a workflow.
-- Guarantees: a row with the same id is a constraint violation.
-- Index: the primary key; the others follow.
-- Concurrency: only the writer runs it.
INSERT INTO workflow_run (id, namespace, workflow, version, made_at, made_by, input, tasks, status, state, packed, wake_at,
    ended_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, '', ?10, ?11, ?12)

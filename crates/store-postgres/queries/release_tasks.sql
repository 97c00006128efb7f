-- The tasks that wait for an artifact stop doing so, under a new revision.
-- Index: task_artifact.
-- Concurrency: in the transaction that made the artifact ready: no other can make a task wait for it meanwhile.
UPDATE task SET waits = false, revision = revision + 1, updated_at = $2 WHERE artifact = $1 AND waits
RETURNING id, name, revision, created_at, updated_at, spec, NULL::uuid, namespace,
       created_by, changed_by

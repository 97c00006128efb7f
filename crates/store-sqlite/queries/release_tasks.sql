-- The tasks that wait for an artifact stop doing so, under a new revision.
-- Index: task_artifact.
-- Concurrency: in the writer, with the artifact's own change.
UPDATE task SET waits = 0, revision = revision + 1, updated_at = ?2 WHERE artifact = ?1 AND waits = 1
RETURNING id, name, revision, created_at, updated_at, spec, NULL, namespace,
       created_by, changed_by

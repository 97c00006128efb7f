-- A live task of a namespace by its name.
-- Index: task_live_name.
-- Concurrency: a snapshot.
SELECT id, name, revision, created_at, updated_at, spec, CASE waits WHEN 1 THEN artifact END, namespace,
       created_by, changed_by FROM task
WHERE namespace = ?2 AND name = ?1 AND deleted = 0 AND name IS NOT NULL

-- Live named tasks of a namespace after a name. The empty text sorts before every name. The caller stops when it has enough.
-- Index: task_live_name, in its order.
-- Concurrency: a snapshot.
SELECT id, name, revision, created_at, updated_at, spec, CASE waits WHEN 1 THEN artifact END, namespace,
       created_by, changed_by FROM task
WHERE namespace = ?2 AND deleted = 0 AND name IS NOT NULL AND name > ?1
ORDER BY name

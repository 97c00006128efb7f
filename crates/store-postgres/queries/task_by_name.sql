-- A live task by its name.
-- Index: task_live_name.
-- Concurrency: a snapshot.
SELECT id, name, revision, created_at, updated_at, spec, CASE WHEN waits THEN artifact END, namespace,
       created_by, changed_by FROM task
WHERE namespace = $2 AND name = $1 AND NOT deleted AND name IS NOT NULL

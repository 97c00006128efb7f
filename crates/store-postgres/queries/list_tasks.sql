-- Live named tasks after a name. The empty text sorts before every name.
-- Index: task_live_name, in its order.
-- Concurrency: a snapshot.
SELECT id, name, revision, created_at, updated_at, spec, CASE WHEN waits THEN artifact END, namespace,
       created_by, changed_by FROM task
WHERE namespace = $3 AND NOT deleted AND name IS NOT NULL AND name > $1
ORDER BY name LIMIT $2

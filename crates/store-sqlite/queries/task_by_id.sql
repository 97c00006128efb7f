-- A task by its id, also a deleted or a nameless one.
-- Index: UNIQUE (id).
-- Concurrency: a snapshot.
SELECT id, name, revision, created_at, updated_at, spec, CASE waits WHEN 1 THEN artifact END, namespace,
       created_by, changed_by FROM task WHERE id = ?1

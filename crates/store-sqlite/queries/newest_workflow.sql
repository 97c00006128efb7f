-- The newest version of a workflow.
-- Guarantees: no row if there is none.
-- Index: the primary key, backwards.
-- Concurrency: a snapshot.
SELECT namespace, name, version, spec, made_at, made_by FROM workflow WHERE namespace = ?1 AND name = ?2 ORDER BY version DESC LIMIT 1

-- One version of a workflow.
-- Guarantees: no row if there is none.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT namespace, name, version, spec, made_at, made_by FROM workflow WHERE namespace = $1 AND name = $2 AND version = $3

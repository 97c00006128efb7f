-- Stores a version of a workflow.
-- Guarantees: a row with the same key is a constraint violation.
-- Index: the primary key.
-- Concurrency: after lock_count, so that the number is the next one.
INSERT INTO workflow (namespace, name, version, spec, made_at, made_by) VALUES ($1, $2, $3, $4, $5, $6)

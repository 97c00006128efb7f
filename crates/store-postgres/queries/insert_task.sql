-- Stores a task, named or interned.
-- Guarantees: a live name, an id and a digest are each held by one row; a second one is a constraint violation.
-- Index: task_live_name, and those of the UNIQUE columns.
-- Concurrency: of two who insert the same at once, the second waits for the first and is then refused.
INSERT INTO task (id, name, revision, deleted, digest, kind, queue, spec, created_at, updated_at, used_until,
                  artifact, waits, namespace, created_by, changed_by)
VALUES ($1, $2, $3, false, $4, $5, $6, $7, $8, $9, $8, $10, $11, $12, $13, $14)

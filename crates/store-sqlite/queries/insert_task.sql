-- Stores a task, named or interned.
-- Guarantees: a live name and a digest are each held by one row of a namespace, and an id by one row; a second one is a constraint violation.
-- Index: task_live_name, task_digest and UNIQUE (id).
-- Concurrency: only the writer runs it.
INSERT INTO task (id, name, revision, deleted, digest, kind, queue, spec, created_at, updated_at, used_until,
                  artifact, waits, namespace, created_by, changed_by)
VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8, ?9, ?8, ?10, ?11, ?12, ?13, ?14)

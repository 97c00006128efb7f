-- A namespace that was not deleted.
-- Index: the primary key.
-- Concurrency: run by the writer in the transaction that changes it.
SELECT id, name, revision, created_at, created_by, changed_at, changed_by, deleted_at, spec FROM namespace
WHERE id = ?1 AND deleted_at IS NULL

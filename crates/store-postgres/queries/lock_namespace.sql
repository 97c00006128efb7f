-- A namespace that was not deleted, for whoever changes or deletes it.
-- Index: the primary key.
-- Concurrency: whoever is about to store something in it waits until the transaction has ended.
SELECT id, name, revision, created_at, created_by, changed_at, changed_by, deleted_at, spec FROM namespace
WHERE id = $1 AND deleted_at IS NULL FOR UPDATE

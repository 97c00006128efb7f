-- All namespaces in order of id, also those that were deleted.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot, the same as for the revision.
SELECT id, name, revision, created_at, created_by, changed_at, changed_by, deleted_at, spec FROM namespace ORDER BY id

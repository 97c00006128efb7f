-- All namespaces in order of id, also those that were deleted, with the revision of all changes.
-- Index: namespace_pkey, in its order; that of the one row of namespace_counter.
-- Concurrency: one snapshot.
SELECT namespace.id, name, namespace.revision, created_at, created_by, changed_at, changed_by, deleted_at, spec,
       (SELECT revision FROM namespace_counter WHERE id = 1) AS all_changes
FROM namespace ORDER BY namespace.id

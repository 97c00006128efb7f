-- A namespace is deleted. Its name is free, and its number is not.
-- Index: the primary key; namespace_name and namespace_deleted follow.
-- Concurrency: only the writer runs it, in the transaction that found it empty.
UPDATE namespace SET revision = revision + 1, changed_at = ?2, changed_by = ?3, deleted_at = ?2 WHERE id = ?1

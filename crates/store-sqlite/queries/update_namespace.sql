-- Replaces the spec of a namespace.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction that read its revision.
UPDATE namespace SET revision = revision + 1, changed_at = ?2, changed_by = ?3, spec = ?4 WHERE id = ?1

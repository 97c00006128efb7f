-- Replaces what may change of a person.
-- Index: the primary key.
-- Concurrency: only the writer runs it, after the revision was compared in the same transaction.
UPDATE identity_user SET changed = ?2, mail = ?3, role = ?4, password = ?5, disabled = ?6, revision = ?7, changed_at = ?8,
                         changed_by = ?9, deleted_at = ?10
WHERE id = ?1

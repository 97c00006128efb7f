-- Replaces what may change of a person.
-- Index: the primary key.
-- Concurrency: after next_identities_revision and identity_user_revision, so that the revision is the one that was compared.
UPDATE identity_user SET changed = $2, mail = $3, role = $4, password = $5, disabled = $6, revision = $7, changed_at = $8,
                         changed_by = $9, deleted_at = $10
WHERE id = $1

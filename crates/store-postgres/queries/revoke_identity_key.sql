-- Revokes a key.
-- Guarantees: who did it first stays on record.
-- Index: the primary key.
-- Concurrency: after next_identities_revision, which lets one change happen at a time.
UPDATE identity_key SET changed = $2, revoked_at = $3, revoked_by = $4 WHERE id = $1 AND revoked_at IS NULL

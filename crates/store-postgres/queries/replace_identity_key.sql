-- Another key takes the place of this one, which stays valid for a while.
-- Guarantees: a key is replaced once, and never lasts longer than before.
-- Index: the primary key.
-- Concurrency: after next_identities_revision, which lets one change happen at a time.
UPDATE identity_key SET changed = $2, replaced_by = $3, expires_at = least(expires_at, $4)
WHERE id = $1 AND revoked_at IS NULL AND replaced_by IS NULL

-- Revokes the keys that were made on behalf of a person.
-- Index: identity_key_owner.
-- Concurrency: after next_identities_revision, which lets one change happen at a time.
UPDATE identity_key SET changed = $2, revoked_at = $3, revoked_by = $4 WHERE owner = $1 AND revoked_at IS NULL

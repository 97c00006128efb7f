-- Whether a person has this name.
-- Index: identity_user_name.
-- Concurrency: after next_identities_revision, so that it stays true.
SELECT 1 FROM identity_user WHERE name = $1 AND deleted_at IS NULL

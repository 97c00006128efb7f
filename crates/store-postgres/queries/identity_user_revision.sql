-- The revision of a person who is not deleted.
-- Index: the primary key.
-- Concurrency: after next_identities_revision, so that it stays true.
SELECT revision FROM identity_user WHERE id = $1 AND deleted_at IS NULL

-- Whether a person is this one at the provider.
-- Index: identity_user_openid.
-- Concurrency: after next_identities_revision, so that it stays true.
SELECT 1 FROM identity_user
WHERE openid_issuer = $1 AND openid_subject = $2 AND deleted_at IS NULL AND openid_subject IS NOT NULL

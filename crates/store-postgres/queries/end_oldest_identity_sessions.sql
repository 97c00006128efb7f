-- Ends the open sessions of a person but for the latest ones.
-- Index: identity_session_user, backwards.
-- Concurrency: after next_identities_revision, which lets one change happen at a time.
UPDATE identity_session SET changed = $2, ended_at = $3
WHERE id = ANY (ARRAY(
    SELECT id FROM identity_session WHERE user_id = $1 AND ended_at IS NULL ORDER BY created_at DESC OFFSET $4
))

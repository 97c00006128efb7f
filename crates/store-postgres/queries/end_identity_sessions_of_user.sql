-- Ends the open sessions of a person.
-- Index: identity_session_user.
-- Concurrency: after next_identities_revision, which lets one change happen at a time.
UPDATE identity_session SET changed = $2, ended_at = $3 WHERE user_id = $1 AND ended_at IS NULL

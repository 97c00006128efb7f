-- Ends a session.
-- Guarantees: it ends once.
-- Index: the primary key.
-- Concurrency: after next_identities_revision, which lets one change happen at a time.
UPDATE identity_session SET changed = $2, ended_at = $3 WHERE id = $1 AND ended_at IS NULL

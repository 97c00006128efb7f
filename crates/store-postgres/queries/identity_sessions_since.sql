-- Sessions that changed after a revision.
-- Index: identity_session_changed.
-- Concurrency: the snapshot of its transaction, the same as that of keys and people.
SELECT id, digest, user_id, created_at, expires_at, last_used_at, ended_at, address
FROM identity_session WHERE changed > $1

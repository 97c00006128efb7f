-- Keys that changed after a revision.
-- Index: identity_key_changed.
-- Concurrency: the snapshot of its transaction, the same as that of people and sessions.
SELECT id, digest, name, namespace, rights, owner, created_at, created_by, expires_at, last_used_at, replaced_by, revoked_at, revoked_by
FROM identity_key WHERE changed > $1

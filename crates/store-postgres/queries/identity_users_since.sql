-- People who changed after a revision.
-- Index: identity_user_changed.
-- Concurrency: the snapshot of its transaction, the same as that of keys and sessions.
SELECT id, name, mail, role, password, disabled, revision, created_at, created_by, changed_at, changed_by, deleted_at,
       openid_issuer, openid_subject
FROM identity_user WHERE changed > $1

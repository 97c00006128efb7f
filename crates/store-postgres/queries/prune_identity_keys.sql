-- Removes keys that were revoked or expired before a moment.
-- Index: none; they are few.
-- Concurrency: a row that is changed meanwhile is looked at again.
DELETE FROM identity_key WHERE revoked_at < $1 OR expires_at < $1

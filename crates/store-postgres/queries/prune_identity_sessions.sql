-- Removes sessions that ended or expired before a moment.
-- Index: none; they are few.
-- Concurrency: a row that is changed meanwhile is looked at again.
DELETE FROM identity_session WHERE ended_at < $1 OR expires_at < $1

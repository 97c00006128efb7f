-- Removes sessions that ended or expired before a moment.
-- Index: none; they are few.
-- Concurrency: only the writer runs it.
DELETE FROM identity_session WHERE ended_at < ?1 OR expires_at < ?1

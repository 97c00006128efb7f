-- Stores a session.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO identity_session (id, changed, digest, user_id, created_at, expires_at, last_used_at, address)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

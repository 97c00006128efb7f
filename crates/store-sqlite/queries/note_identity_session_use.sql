-- Notes when a session was used.
-- Guarantees: the time never goes back.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE identity_session SET changed = ?2, last_used_at = ?3 WHERE id = ?1 AND last_used_at < ?3

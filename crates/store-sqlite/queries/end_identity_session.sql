-- Ends a session.
-- Guarantees: it ends once.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE identity_session SET changed = ?2, ended_at = ?3 WHERE id = ?1 AND ended_at IS NULL

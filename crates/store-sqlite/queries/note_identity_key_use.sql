-- Notes when a key was used.
-- Guarantees: the time never goes back.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE identity_key SET changed = ?2, last_used_at = ?3 WHERE id = ?1 AND coalesce(last_used_at, ?3 - 1) < ?3

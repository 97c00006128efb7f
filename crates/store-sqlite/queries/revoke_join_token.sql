-- Ends a join token.
-- Guarantees: the time of the first call stays.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE join_token SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL

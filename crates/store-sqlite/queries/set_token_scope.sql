-- Changes what workers may do that join with a token from now on.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE join_token SET scope = ?2 WHERE id = ?1

-- Whether there is a session of this id, or was one that is not removed yet.
-- Index: the primary key.
-- Concurrency: run by the writer in the transaction that adds one.
SELECT 1 FROM identity_session WHERE id = ?1

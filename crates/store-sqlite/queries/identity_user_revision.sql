-- The revision of a person who is not deleted.
-- Index: the primary key.
-- Concurrency: run by the writer in the transaction that changes the row or adds a session.
SELECT revision FROM identity_user WHERE id = ?1 AND deleted_at IS NULL

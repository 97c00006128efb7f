-- Whether a person has this name.
-- Index: identity_user_name.
-- Concurrency: run by the writer in the transaction that adds one.
SELECT 1 FROM identity_user WHERE name = ?1 AND deleted_at IS NULL

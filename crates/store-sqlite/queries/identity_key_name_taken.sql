-- Whether a key of the namespace has this name and is neither revoked nor replaced.
-- Index: identity_key_name.
-- Concurrency: run by the writer in the transaction that adds one.
SELECT 1 FROM identity_key WHERE namespace = ?1 AND name = ?2 AND revoked_at IS NULL AND replaced_by IS NULL

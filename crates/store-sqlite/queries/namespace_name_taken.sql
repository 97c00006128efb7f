-- Whether a namespace has this name that was not deleted.
-- Index: namespace_name; the second condition is its own, or it would not be used.
-- Concurrency: run by the writer in the transaction that adds one.
SELECT 1 FROM namespace WHERE name = ?1 AND deleted_at IS NULL

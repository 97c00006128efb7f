-- Whether a namespace is there, for whoever stores something in it.
-- Index: the primary key.
-- Concurrency: it is not deleted until the transaction has ended.
SELECT 1 FROM namespace WHERE id = $1 AND deleted_at IS NULL FOR KEY SHARE

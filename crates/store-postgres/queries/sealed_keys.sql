-- All sealed keys, in order of label.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot; after lock_count, so that it stays true, where they are changed.
SELECT label, root_key, sealed FROM sealed_key ORDER BY label

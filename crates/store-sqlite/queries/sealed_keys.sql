-- All sealed keys, in order of label.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT label, root_key, sealed FROM sealed_key ORDER BY label

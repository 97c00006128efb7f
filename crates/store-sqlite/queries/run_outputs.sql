-- The kept outputs of a node.
-- Guarantees: each element once.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
SELECT item, output FROM workflow_output WHERE run = ?1 AND node = ?2

-- The kept outputs of a node.
-- Guarantees: each element once.
-- Index: the primary key.
-- Concurrency: the row of the run is locked.
SELECT item, output FROM workflow_output WHERE run = $1 AND node = $2

-- The kept outputs of nodes of runs.
-- Index: the primary key.
-- Concurrency: the rows of the runs are locked.
SELECT kept.run, kept.node, kept.item, kept.output
FROM unnest($1::uuid[], $2::integer[]) AS wanted (run, node)
JOIN workflow_output AS kept ON kept.run = wanted.run AND kept.node = wanted.node

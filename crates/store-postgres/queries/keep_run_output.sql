-- Keeps an output that other nodes read.
-- Guarantees: the last one counts.
-- Index: the primary key.
-- Concurrency: the row of the run is locked.
INSERT INTO workflow_output (run, node, item, output)
SELECT run, node, item, output FROM unnest($1::uuid[], $2::integer[], $3::integer[], $4::bytea[]) AS new (run, node, item, output)
ON CONFLICT (run, node, item) DO UPDATE SET output = excluded.output

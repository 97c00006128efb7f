-- Keeps an output that other nodes read.
-- Guarantees: the last one counts.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO workflow_output (run, node, item, output) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (run, node, item) DO UPDATE SET output = excluded.output

-- Finished jobs, removed by retention. The paths of their logs are remembered as dropped.
-- Index: those on id of the partitions.
-- Concurrency: in the transaction that locked them.
WITH gone AS (
    DELETE FROM history WHERE id = ANY ($1::uuid[]) RETURNING log_path
)
INSERT INTO dropped_log (path) SELECT log_path FROM gone WHERE log_path IS NOT NULL ON CONFLICT DO NOTHING

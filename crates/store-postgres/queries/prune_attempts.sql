-- The earlier attempts of jobs, removed by retention. The paths of their logs are remembered as dropped.
-- Index: the key, which begins with the job's id.
-- Concurrency: in the transaction that removes the jobs.
WITH gone AS (
    DELETE FROM attempt WHERE job = ANY ($1::uuid[]) RETURNING log_path
)
INSERT INTO dropped_log (path) SELECT log_path FROM gone WHERE log_path IS NOT NULL ON CONFLICT DO NOTHING

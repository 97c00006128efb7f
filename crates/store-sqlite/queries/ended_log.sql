-- When an attempt ended, and where its log is if it was archived; no row when history does not know it.
-- Index: the primary keys.
-- Concurrency: a snapshot.
SELECT finished_at, log_path, log_bytes FROM attempt WHERE job = ?1 AND attempt = ?2
UNION ALL
SELECT finished_at, log_path, log_bytes FROM history WHERE id = ?1 AND attempt = ?2

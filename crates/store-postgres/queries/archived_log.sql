-- Where the log of an attempt that ended is, if it was archived.
-- Index: the primary key of attempt, and those on id of the partitions of history.
-- Concurrency: a snapshot.
SELECT log_path, log_bytes FROM attempt WHERE job = $1 AND attempt = $2
UNION ALL
SELECT log_path, log_bytes FROM history WHERE id = $1 AND attempt = $2

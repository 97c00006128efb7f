-- Remembers the objects of a job's logs, which nothing names when the job is gone.
-- Index: the primary keys of history and attempt.
-- Concurrency: only the writer runs it, in the transaction that removes the job.
INSERT OR IGNORE INTO dropped_log (path)
SELECT log_path FROM history WHERE id = ?1 AND log_path IS NOT NULL
UNION ALL
SELECT log_path FROM attempt WHERE job = ?1 AND log_path IS NOT NULL

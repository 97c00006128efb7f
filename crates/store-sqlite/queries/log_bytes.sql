-- The bytes of the logs of a namespace other than the default one: archived ones, and pieces that are still here.
-- Index: history_log_bytes and attempt_log_bytes, which have all that is read; UNIQUE (job, attempt, offset), from job to job,
-- and for each of these job_namespace and the primary key of history.
-- Concurrency: a snapshot: a log that is archived meanwhile counts once.
WITH RECURSIVE kept (job) AS (
    SELECT min(job) FROM log
    UNION ALL
    SELECT (SELECT min(log.job) FROM log WHERE log.job > kept.job) FROM kept WHERE kept.job IS NOT NULL
)
SELECT
    (SELECT coalesce(sum(log_bytes), 0) FROM history WHERE namespace = ?1 AND log_bytes IS NOT NULL)
    + (SELECT coalesce(sum(log_bytes), 0) FROM attempt WHERE namespace = ?1)
    + (
        SELECT coalesce(sum((SELECT sum(length(log.bytes)) FROM log WHERE log.job = kept.job)), 0)
        FROM kept
        WHERE EXISTS (SELECT 1 FROM job WHERE job.namespace = ?1 AND job.id = kept.job)
            OR EXISTS (SELECT 1 FROM history WHERE history.id = kept.job AND history.namespace = ?1)
    )

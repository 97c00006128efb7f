-- The bytes of the logs of a namespace other than the default one: archived ones, and pieces that are still here.
-- Index: history_log_bytes and attempt_log_bytes, which have all that is read; the primary key of log, from job to job, and for
-- each of these job_namespace and history_namespace.
-- OFFSET 0 keeps PostgreSQL from reading all jobs of the namespace once instead.
-- Concurrency: a snapshot: a log that is archived meanwhile counts once.
WITH RECURSIVE kept (job) AS (
    (SELECT job FROM log ORDER BY job LIMIT 1)
    UNION ALL
    SELECT next.job
    FROM kept CROSS JOIN LATERAL (
        SELECT log.job FROM log WHERE log.job > kept.job ORDER BY log.job LIMIT 1
    ) AS next
)
SELECT (
    (SELECT coalesce(sum(log_bytes), 0) FROM history WHERE namespace = $1 AND log_bytes IS NOT NULL)
    + (SELECT coalesce(sum(log_bytes), 0) FROM attempt WHERE namespace = $1)
    + (
        SELECT coalesce(sum(pieces.bytes), 0)
        FROM kept CROSS JOIN LATERAL (
            SELECT sum(octet_length(log.bytes)) AS bytes FROM log WHERE log.job = kept.job
        ) AS pieces
        WHERE EXISTS (SELECT 1 FROM job WHERE job.namespace = $1 AND job.id = kept.job OFFSET 0)
            OR EXISTS (SELECT 1 FROM history WHERE history.namespace = $1 AND history.id = kept.job OFFSET 0)
    )
)::bigint

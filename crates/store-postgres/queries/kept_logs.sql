-- Attempts that have pieces of logs, after one, in order, so many; with when they ended and where their logs are, if
-- history knows them. Goes from attempt to attempt and steps over all other pieces.
-- Index: the primary key of log, in its order; that of attempt, and those on id of the partitions of history.
-- Concurrency: a snapshot.
WITH RECURSIVE kept (job, attempt) AS (
    (SELECT job, attempt FROM log WHERE (job, attempt) > ($1, $2) ORDER BY job, attempt LIMIT 1)
    UNION ALL
    SELECT next.job, next.attempt
    FROM kept CROSS JOIN LATERAL (
        SELECT log.job, log.attempt FROM log WHERE (log.job, log.attempt) > (kept.job, kept.attempt)
        ORDER BY log.job, log.attempt LIMIT 1
    ) AS next
), page AS (
    SELECT job, attempt FROM kept LIMIT $3
)
SELECT page.job, page.attempt, ended.finished_at, ended.log_path, ended.log_bytes
FROM page LEFT JOIN LATERAL (
    SELECT finished_at, log_path, log_bytes FROM attempt
    WHERE attempt.job = page.job AND attempt.attempt = page.attempt
    UNION ALL
    SELECT finished_at, log_path, log_bytes FROM history
    WHERE history.id = page.job AND history.attempt = page.attempt
) AS ended ON true

-- Records where logs are and removes the pieces that are in them; the answer names those for which it did.
-- An earlier attempt gets its namespace with it, which history has already.
-- Guarantees: nothing is done for a log of which not as many pieces are there as are in it, or of which another log is
-- recorded than the one that is replaced. A path that was replaced is remembered as dropped.
-- Index: the primary keys of log, attempt and dropped_log, and those on id of the partitions of history.
-- Concurrency: all parts see one snapshot: a piece that comes meanwhile is not counted and not removed. An attempt
-- that changes places meanwhile is not found. Not fenced: a log decides nothing.
WITH wanted AS (
    SELECT * FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::integer[])
        AS log (job, attempt, path, bytes, replaces, pieces, namespace)
), whole AS (
    SELECT wanted.* FROM wanted WHERE pieces = (
        SELECT count(*) FROM log
        WHERE log.job = wanted.job AND log.attempt = wanted.attempt AND log.begins + octet_length(log.bytes) <= wanted.bytes
    )
), of_attempts AS (
    UPDATE attempt SET log_path = whole.path, log_bytes = whole.bytes, namespace = whole.namespace
    FROM whole
    WHERE attempt.job = whole.job AND attempt.attempt = whole.attempt AND attempt.log_path IS NOT DISTINCT FROM whole.replaces
    RETURNING whole.*
), of_jobs AS (
    UPDATE history SET log_path = whole.path, log_bytes = whole.bytes
    FROM whole
    WHERE history.id = whole.job AND history.attempt = whole.attempt AND history.log_path IS NOT DISTINCT FROM whole.replaces
    RETURNING whole.*
), recorded AS (
    SELECT * FROM of_attempts UNION ALL SELECT * FROM of_jobs
), removed AS (
    DELETE FROM log USING recorded
    WHERE log.job = recorded.job AND log.attempt = recorded.attempt
      AND log.begins + octet_length(log.bytes) <= recorded.bytes
), dropped AS (
    INSERT INTO dropped_log (path) SELECT replaces FROM recorded WHERE replaces <> path ON CONFLICT DO NOTHING
)
SELECT job, attempt FROM recorded

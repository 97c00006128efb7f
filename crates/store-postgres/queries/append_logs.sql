-- Stores pieces of logs. Of a piece that overlaps what is stored, only what lies beyond the end of its log is new: a log takes
-- no more room than its length. The pieces do not overlap among themselves.
-- Index: the primary key, backwards.
-- Concurrency: not fenced: a log decides nothing. Of two equal pieces at once the first stays.
INSERT INTO log (job, begins, attempt, bytes, marks)
SELECT
    piece.job,
    fresh.begins,
    piece.attempt,
    substr(piece.bytes, (fresh.begins - piece.begins)::integer + 1),
    -- They count from the begin of the piece.
    CASE WHEN fresh.begins = piece.begins THEN piece.marks END
FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bytea[], $5::bytea[])
    AS piece (job, begins, attempt, bytes, marks)
CROSS JOIN LATERAL (
    SELECT
        (
            SELECT log.begins + octet_length(log.bytes) FROM log
            WHERE log.job = piece.job AND log.attempt = piece.attempt
                AND log.begins < piece.begins + octet_length(piece.bytes)
            ORDER BY log.begins DESC LIMIT 1
        ) AS ends_before,
        (
            SELECT log.begins + octet_length(log.bytes) FROM log
            WHERE log.job = piece.job AND log.attempt = piece.attempt
            ORDER BY log.begins DESC LIMIT 1
        ) AS ends
) AS stored
CROSS JOIN LATERAL (
    SELECT CASE WHEN stored.ends_before > piece.begins THEN stored.ends ELSE piece.begins END AS begins
) AS fresh
WHERE piece.begins + octet_length(piece.bytes) > fresh.begins
ON CONFLICT (job, attempt, begins) DO NOTHING

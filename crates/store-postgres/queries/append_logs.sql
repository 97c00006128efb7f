-- Stores of pieces of logs what lies beyond the end of each log. A piece that is there already, or another one in its place,
-- is left as it is: a log takes no more room than its length. The pieces of one log do not overlap among themselves.
-- Index: the primary key, backwards.
-- Concurrency: not fenced: a log decides nothing. Of two equal pieces at once the first stays.
INSERT INTO log (job, begins, attempt, bytes, marks)
SELECT
    piece.job,
    greatest(piece.begins, stored.ends),
    piece.attempt,
    substr(piece.bytes, (greatest(piece.begins, stored.ends) - piece.begins)::integer + 1),
    -- They count from the begin of the piece.
    CASE WHEN piece.begins >= stored.ends THEN piece.marks END
FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bytea[], $5::bytea[])
    AS piece (job, begins, attempt, bytes, marks)
CROSS JOIN LATERAL (
    SELECT coalesce(
        (
            SELECT log.begins + octet_length(log.bytes) FROM log
            WHERE log.job = piece.job AND log.attempt = piece.attempt
            ORDER BY log.begins DESC LIMIT 1
        ),
        0
    ) AS ends
) AS stored
WHERE piece.begins + octet_length(piece.bytes) > stored.ends
ON CONFLICT (job, attempt, begins) DO NOTHING

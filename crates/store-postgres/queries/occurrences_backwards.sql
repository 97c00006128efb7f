-- As occurrences, the latest first.
-- Those with other verdicts are looked at here and not sent. The last one that is looked at is sent in any case, so that
-- the next page can go on after it.
-- Guarantees: looks at no more than $4 rows, and sends no more than $6.
-- Index: the primary keys of the partitions, one after the other, in their order backwards.
-- Concurrency: a snapshot.
SELECT schedule, at, slot, verdict, decided_at, marks, count, job, reason, started_at, requested_by, place = $4, fits
FROM (
    SELECT *, row_number() OVER (ORDER BY at DESC) AS place,
           cardinality($5::smallint[]) = 0 OR verdict = ANY ($5) AS fits
    FROM occurrence WHERE schedule = $1 AND at > $2 AND at < $3
    ORDER BY at DESC LIMIT $4
) AS found
WHERE fits OR place = $4
ORDER BY at DESC LIMIT $6

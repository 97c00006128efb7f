-- Gives lost jobs the ends that their attempts reported after all, with what else is known of them. A row may change
-- its partition.
-- Guarantees: the answer is the jobs that were there as lost, in this attempt, or nothing if all were; with $10 an error
-- unless all were. Their workers and servers count as used at the new time.
-- Index: those on id of the partitions of history.
-- Concurrency: under the shards' fences. Retention may have removed a job before; then it is not there.
WITH resolved AS (
    UPDATE history SET
        state = late.state, ending = late.ending, finished_at = late.finished_at, early = late.early,
        reason = late.reason, output = late.output, details = late.details
    FROM unnest(
        $1::uuid[], $2::integer[], $3::smallint[], $4::smallint[], $5::bigint[], $6::boolean[], $7::text[], $8::bytea[],
        $9::text[]
    ) AS late (id, attempt, state, ending, finished_at, early, reason, output, details)
    WHERE history.id = late.id AND history.attempt = late.attempt AND history.state = 4
    RETURNING history.id, history.worker, history.server, history.finished_at
), used AS (
    UPDATE node SET used_at = latest.at
    FROM (
        SELECT number, max(finished_at) AS at
        FROM resolved CROSS JOIN LATERAL (VALUES (worker), (server)) AS named (number)
        GROUP BY number
    ) AS latest
    WHERE node.number = latest.number AND node.used_at < latest.at
)
SELECT CASE WHEN count(*) < cardinality($1::uuid[]) THEN coalesce(array_agg(id), '{}') END,
       1 / (count(*) = cardinality($1::uuid[]) OR NOT $10::boolean)::int
FROM resolved

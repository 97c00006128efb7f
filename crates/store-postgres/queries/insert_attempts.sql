-- Keeps attempts that did not end their jobs.
-- Guarantees: a second record of the same attempt is a constraint violation.
-- Index: the primary key.
-- Concurrency: under the shards' fences.
INSERT INTO attempt (job, worker, server, picked_up_at, started_at, finished_at, attempt, ending, reason, details,
    due_at)
SELECT * FROM unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::integer[], $8::smallint[], $9::text[],
    $10::text[], $11::bigint[]
)

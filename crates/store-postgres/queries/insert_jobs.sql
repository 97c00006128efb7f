-- Stores new jobs.
-- Guarantees: all, or a constraint violation if a row with the same key is there. Ids are drawn at random and
-- not looked up elsewhere.
-- Index: the primary key.
-- Concurrency: not fenced: a new row disturbs no decision.
INSERT INTO job (id, due_at, submitted_at, task, next_attempt, shard, failures, node_failures, priority, moved, tracing_id, input, source,
    namespace, requester)
SELECT id, due_at, submitted_at, task, 1, shard, 0, 0, priority, false, tracing_id, input, source, namespace, requester
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[], $6::smallint[], $7::text[], $8::bytea[],
            $9::bytea[], $10::integer[], $11::integer[])
    AS new (id, due_at, submitted_at, task, shard, priority, tracing_id, input, source, namespace, requester)

-- As insert_jobs, for jobs of the default namespace without a tracing id, an input and a source, which most are.
-- Index: the primary key.
-- Concurrency: not fenced: a new row disturbs no decision.
INSERT INTO job (id, due_at, submitted_at, task, next_attempt, shard, failures, node_failures, priority, moved, requester)
SELECT id, due_at, submitted_at, task, 1, shard, 0, 0, priority, false, requester
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[], $6::smallint[],
            $7::integer[])
    AS new (id, due_at, submitted_at, task, shard, priority, requester)

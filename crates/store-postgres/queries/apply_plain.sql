-- A whole batch of starts, plain successes and closed records in one statement, which is its own transaction: at a low
-- rate, a round of messages for each statement costs more than what they do.
-- Does: fence, check_waiting, settle_plain, close_starts and insert_starts; see there, and change
-- both. Parameters: src/transitions/plain.rs. Empty lists do nothing.
-- Guarantees: an error, and nothing done, unless all of them hold.
-- Index: the primary keys; in history that of the partition.
-- Concurrency: nothing is written before the fence is held, and under it nobody else changes what the snapshot shows.
WITH fence AS MATERIALIZED (
    SELECT 1 / (count(*) = cardinality($1::smallint[]) AND current_setting('punctual.last') = $3)::int AS holds,
           set_config('punctual.last', $4, false) AS last
    FROM (
        SELECT 1
        FROM unnest($1::smallint[], $2::bigint[]) AS fenced (shard, epoch)
        JOIN shard ON shard.id = fenced.shard AND shard.epoch = fenced.epoch
        FOR KEY SHARE OF shard
    ) AS held
), waiting AS MATERIALIZED (
    SELECT 1 / (count(*) = cardinality($5::smallint[]))::int AS holds
    FROM unnest($5::smallint[], $6::bigint[], $7::uuid[], $8::integer[]) AS wanted (shard, due_at, id, next_attempt)
    JOIN job ON job.shard = wanted.shard AND job.due_at = wanted.due_at AND job.id = wanted.id
            AND job.next_attempt = wanted.next_attempt
), gone AS (
    DELETE FROM job USING fence, unnest(
        $9::smallint[], $10::bigint[], $11::uuid[], $12::integer[], $13::bigint[], $14::integer[], $15::bigint[],
        $16::bigint[]
    ) AS done (shard, due_at, id, attempt, finished_at, worker, picked_up_at, started_at)
    WHERE fence.holds = 1
      AND job.shard = done.shard AND job.due_at = done.due_at AND job.id = done.id AND job.next_attempt = done.attempt
    RETURNING job.id, job.submitted_at, job.task, job.priority, job.tracing_id, job.input, job.source, job.namespace,
              job.requester,
              done.attempt, done.finished_at, done.worker, done.picked_up_at, done.started_at
), kept AS (
    INSERT INTO history (
        id, finished_at, submitted_at, task, picked_up_at, started_at, next_attempt, attempt, worker, server,
        failures, node_failures, priority, state, ending, early, tracing_id, input, source, namespace, requester
    )
    SELECT id, finished_at, submitted_at, task, picked_up_at, started_at, attempt + 1, attempt, worker, $17::integer,
           0, 0, priority, 1, 1, false, tracing_id, input, source, namespace, requester
    FROM gone
), closed AS (
    DELETE FROM start_batch USING fence, unnest($18::smallint[], $19::bigint[], $20::bigint[]) AS old (shard, epoch, seq)
    WHERE fence.holds = 1
      AND start_batch.shard = old.shard AND start_batch.epoch = old.epoch AND start_batch.seq = old.seq
), recorded AS (
    INSERT INTO start_batch (epoch, seq, server, shard, starts)
    SELECT new.epoch, $23, $24, new.shard, new.starts
    FROM fence, waiting, unnest($21::smallint[], $22::bigint[], $25::bytea[]) AS new (shard, epoch, starts)
    WHERE fence.holds = 1 AND waiting.holds = 1
)
SELECT 1 / ((SELECT count(*) FROM gone) = cardinality($9::smallint[]))::int, fence.last
FROM fence, waiting
WHERE waiting.holds = 1

-- Gives planned times their verdicts, and makes the jobs of those that fire, with the inputs of their schedules, which
-- count them if they are limited.
-- Guarantees: the answer is the places, from 1, of those that had none before, or nothing if all had none. Of the
-- others nothing is done; with $19 an error if there are any. An error if there is no such task. Inputs never leave
-- PostgreSQL.
-- Index: the primary keys of the partitions that get rows, of job and of schedule; UNIQUE (id) of task.
-- Concurrency: under the shards' fences nobody else decides. Opens and locks the partitions that get rows and no other:
-- a condition on occurrence would lock all of them, however few are looked at, because the plan is made once and kept.
-- Tasks are locked in order of their numbers.
WITH asked AS MATERIALIZED (
    SELECT asked.*
    FROM unnest(
        $1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[], $7::smallint[],
        $8::integer[], $9::uuid[], $10::text[],
        $11::uuid[], $12::bigint[], $13::uuid[], $14::smallint[], $15::bytea[], $16::boolean[], $17::boolean[], $20::text[]
    ) WITH ORDINALITY AS asked (
        shard, schedule, at, slot, decided_at, verdict, marks,
        count, named, reason,
        job, due_at, task, priority, source, has_input, is_counted, requested_by, place
    )
), kept AS (
    INSERT INTO occurrence (schedule, job, at, slot, decided_at, count, shard, verdict, marks, reason, requested_by)
    SELECT schedule, named, at, slot, decided_at, count, shard, verdict, marks, reason, requested_by FROM asked
    ON CONFLICT (schedule, at) DO NOTHING
    RETURNING schedule, at
), new AS MATERIALIZED (
    -- IS TRUE keeps it from becoming a join, which would compare all with all: this way it is a look into a hash.
    SELECT * FROM asked WHERE ((schedule, at) IN (SELECT schedule, at FROM kept)) IS TRUE
), fired AS MATERIALIZED (
    SELECT new.job, new.due_at, new.decided_at, task.number, new.shard, new.priority, new.source, schedule.input,
           nullif(task.namespace, 0) AS namespace
    FROM new JOIN task ON task.id = new.task
    LEFT JOIN schedule ON schedule.shard = new.shard
                      AND schedule.id = CASE WHEN new.has_input THEN new.schedule END
), made AS (
    INSERT INTO job (id, due_at, submitted_at, task, next_attempt, shard, failures, node_failures, priority, moved, input, source,
        namespace)
    SELECT job, due_at, decided_at, number, 1, shard, 0, 0, priority, false, input, source, namespace
    FROM fired
), used AS (
    UPDATE task SET used_until = latest.due_at
    FROM (SELECT number, max(due_at) AS due_at FROM fired GROUP BY number ORDER BY number) AS latest
    WHERE task.number = latest.number AND task.used_until < latest.due_at - $18::bigint
), counted AS (
    UPDATE schedule SET runs = schedule.runs + more.runs
    FROM (SELECT shard, schedule, count(*)::integer AS runs FROM new WHERE is_counted GROUP BY shard, schedule) AS more
    WHERE schedule.shard = more.shard AND schedule.id = more.schedule
)
SELECT CASE WHEN count(*) < cardinality($1::smallint[]) THEN coalesce(array_agg(place), '{}') END,
       1 / (count(job) = (SELECT count(*) FROM fired)
            AND (count(*) = cardinality($1::smallint[]) OR NOT $19::boolean))::int
FROM new

-- Gives queued times their final verdicts, and makes the jobs of those that fire; otherwise as decide.
-- Guarantees: the answer is the places, from 1, of those that were queued, or nothing if all were. Of the others nothing
-- is done; with $19 an error if there are any. An error if there is no such task.
-- Index: the primary key of the partition, or occurrence_queued; as decide.
-- Concurrency: under the shards' fences, so that nobody else changes the rows. Tasks are locked in order.
WITH released AS (
    UPDATE occurrence SET
        slot = new.slot, decided_at = new.decided_at, verdict = new.verdict, marks = new.marks, count = new.count,
        job = new.named, reason = new.reason
    FROM unnest(
        $1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[], $7::smallint[],
        $8::integer[], $9::uuid[], $10::text[],
        $11::uuid[], $12::bigint[], $13::uuid[], $14::smallint[], $15::bytea[], $16::boolean[], $17::boolean[], $20::text[]
    ) WITH ORDINALITY AS new (
        shard, schedule, at, slot, decided_at, verdict, marks,
        count, named, reason,
        job, due_at, task, priority, source, has_input, is_counted, requested_by, place
    )
    WHERE occurrence.schedule = new.schedule AND occurrence.at = new.at AND occurrence.at BETWEEN $21 AND $22
      AND occurrence.verdict = 2
    RETURNING new.shard, new.schedule, new.decided_at, new.job, new.due_at, new.task, new.priority, new.source,
              new.has_input, new.is_counted, new.place
), fired AS MATERIALIZED (
    SELECT released.job, released.due_at, released.decided_at, task.number, released.shard, released.priority,
           released.source, schedule.input,
           nullif(task.namespace, 0) AS namespace
    FROM released JOIN task ON task.id = released.task
    LEFT JOIN schedule ON schedule.shard = released.shard
                      AND schedule.id = CASE WHEN released.has_input THEN released.schedule END
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
    FROM (SELECT shard, schedule, count(*)::integer AS runs FROM released WHERE is_counted GROUP BY shard, schedule) AS more
    WHERE schedule.shard = more.shard AND schedule.id = more.schedule
)
SELECT CASE WHEN count(*) < cardinality($1::smallint[]) THEN coalesce(array_agg(place), '{}') END,
       1 / (count(job) = (SELECT count(*) FROM fired)
            AND (count(*) = cardinality($1::smallint[]) OR NOT $19::boolean))::int
FROM released

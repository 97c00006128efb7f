-- Stores new schedules.
-- Guarantees: the answer is the ids of those that were stored, or nothing if all were; one whose name or id is taken is
-- not. An error if there is no such task.
-- Index: the primary keys, schedule_name and schedule_task; UNIQUE (id) of task.
-- Concurrency: under the shards' fences. Who stores the same name at the same time is waited for.
WITH kept AS (
    INSERT INTO schedule (
        shard, id, name, task, spec, priority, input, calendars, revision, since, paused_at, paused_by, pause_note,
        skip_until, failures, runs, created_at, created_by, changed_at, changed_by, namespace
    )
    SELECT shard, id, name, task, spec, priority, input, calendars::jsonb, revision, since, paused_at,
           paused_by, pause_note, skip_until, failures, runs, created_at, created_by, changed_at, changed_by, namespace
    FROM unnest(
        $1::smallint[], $2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::smallint[], $7::bytea[], $8::text[],
        $9::integer[], $10::bigint[], $11::bigint[], $12::text[], $13::text[], $14::bigint[], $15::smallint[], $16::integer[],
        $17::bigint[], $18::text[], $19::bigint[], $20::text[], $21::integer[]
    ) AS new (
        shard, id, name, task, spec, priority, input, calendars,
        revision, since, paused_at, paused_by, pause_note, skip_until, failures, runs,
        created_at, created_by, changed_at, changed_by, namespace
    )
    ON CONFLICT DO NOTHING
    RETURNING id, task
)
SELECT CASE WHEN count(*) < cardinality($1::smallint[]) THEN coalesce(array_agg(kept.id), '{}') END,
       1 / (count(*) = count(task.id))::int
FROM kept LEFT JOIN task ON task.id = kept.task

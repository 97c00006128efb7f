-- Gives schedules new definitions, and records that with the former ones. One that is not there is left out. How often
-- they have run stays.
-- Guarantees: an error if there is no such task.
-- Index: the primary keys; schedule_task follows; UNIQUE (id) of task.
-- Concurrency: under the shards' fences, so that nobody else changes the rows.
WITH edited AS (
    UPDATE schedule SET
        task = new.task, spec = new.spec, priority = new.priority, input = new.input,
        calendars = new.calendars::jsonb,
        revision = new.revision, since = new.since, paused_at = new.paused_at, paused_by = new.paused_by,
        pause_note = new.pause_note, skip_until = new.skip_until, failures = new.failures,
        changed_at = new.changed_at, changed_by = new.changed_by
    FROM unnest(
        $1::smallint[], $2::uuid[], $3::uuid[], $4::text[], $5::smallint[], $6::bytea[], $7::text[],
        $8::integer[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::bigint[], $14::smallint[],
        $15::bigint[], $16::text[], $17::smallint[], $18::text[]
    ) AS new (
        shard, id, task, spec, priority, input, calendars,
        revision, since, paused_at, paused_by, pause_note, skip_until, failures,
        changed_at, changed_by, kind, note
    )
    JOIN schedule AS former ON former.shard = new.shard AND former.id = new.id
    WHERE schedule.shard = new.shard AND schedule.id = new.id
    RETURNING schedule.id, schedule.task, new.changed_at, new.changed_by, new.kind, new.note, former.spec
), noted AS (
    INSERT INTO schedule_change (schedule, at, kind, who, note, former_spec)
    SELECT id, changed_at, kind, changed_by, note, spec FROM edited
)
SELECT 1 / (count(*) = count(task.id))::int FROM edited LEFT JOIN task ON task.id = edited.task

-- Gives schedules new states. One that is not there is left out. How often they have run stays.
-- Index: the primary key; what changes is in none.
-- Concurrency: under the shards' fences, so that nobody else changes the rows.
UPDATE schedule SET
    revision = new.revision, since = new.since, paused_at = new.paused_at, paused_by = new.paused_by,
    pause_note = new.pause_note, skip_until = new.skip_until, failures = new.failures,
    changed_at = coalesce(new.changed_at, schedule.changed_at), changed_by = coalesce(new.changed_by, schedule.changed_by)
FROM unnest(
    $1::smallint[], $2::uuid[],
    $3::integer[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::smallint[],
    $10::bigint[], $11::text[]
) AS new (
    shard, id, revision, since, paused_at, paused_by, pause_note, skip_until, failures, changed_at, changed_by
)
WHERE schedule.shard = new.shard AND schedule.id = new.id

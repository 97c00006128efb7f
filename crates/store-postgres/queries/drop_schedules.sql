-- Removes schedules, and records that. One that is not there is left out; occurrences stay.
-- Index: the primary key.
-- Concurrency: under the shards' fences.
WITH dropped AS (
    DELETE FROM schedule USING unnest(
        $1::smallint[], $2::uuid[], $3::bigint[], $4::text[], $5::smallint[], $6::text[], $7::text[]
    ) AS old (shard, id, at, who, kind, note, former_spec)
    WHERE schedule.shard = old.shard AND schedule.id = old.id
    RETURNING old.*
)
INSERT INTO schedule_change (schedule, at, kind, who, note, former_spec)
SELECT id, at, kind, who, note, former_spec FROM dropped

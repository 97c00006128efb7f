-- Records what was done to schedules, in the order given, for those that are there.
-- Index: the primary keys.
-- Concurrency: under the shards' fences.
INSERT INTO schedule_change (schedule, at, kind, who, note, former_spec)
SELECT new.id, new.at, new.kind, new.who, new.note, new.former_spec
FROM unnest(
    $1::smallint[], $2::uuid[], $3::bigint[], $4::text[], $5::smallint[], $6::text[], $7::text[]
) AS new (shard, id, at, who, kind, note, former_spec)
JOIN schedule ON schedule.shard = new.shard AND schedule.id = new.id

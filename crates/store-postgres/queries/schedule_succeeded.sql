-- Planned times whose runs have succeeded, at most one of each schedule.
-- Guarantees: a later one that is known stays; schedules that are gone are passed over.
-- Index: the primary key.
-- Concurrency: under the shard's fence, as all that changes a schedule.
UPDATE schedule SET last_success = given.at
FROM unnest($1::smallint[], $2::uuid[], $3::bigint[]) AS given (shard, id, at)
WHERE schedule.shard = given.shard AND schedule.id = given.id
  AND (schedule.last_success IS NULL OR schedule.last_success < given.at)

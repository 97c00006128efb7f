-- Says when the runs of planned times started, and marks them.
-- Guarantees: a time that has another job, or whose row is gone, is left alone.
-- Index: the primary keys of the partitions between the first and the last time.
-- Concurrency: under the shards' fences, so that nobody else changes the rows.
UPDATE occurrence SET started_at = late.started_at, marks = occurrence.marks | late.marks
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bigint[], $5::smallint[]) AS late (schedule, at, job, started_at, marks)
WHERE occurrence.schedule = late.schedule AND occurrence.at = late.at AND occurrence.at BETWEEN $6 AND $7
  AND occurrence.job = late.job

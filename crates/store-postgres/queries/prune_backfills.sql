-- Backfills that ended before a time and have no runs any more, so many at once, removed by retention.
-- Index: backfill_ended, and the primary keys.
-- Concurrency: one that is stepped at the same time is passed over.
DELETE FROM backfill WHERE id IN (
    SELECT id FROM backfill
    WHERE state <> 1 AND ended_at < $1
      AND NOT EXISTS (SELECT 1 FROM backfill_run WHERE backfill_run.backfill = backfill.id)
    ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
)

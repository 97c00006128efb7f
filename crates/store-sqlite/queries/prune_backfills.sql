-- Backfills that ended before a time, so many at once, the oldest first.
-- Guarantees: never one that has runs left.
-- Index: backfill_ended, in its order; the condition is its own, or it would not be used. For each, the key of its runs.
-- Concurrency: only the writer runs it.
DELETE FROM backfill WHERE id IN (
    SELECT id FROM backfill
    WHERE state <> 1 AND ended_at < ?1 AND NOT EXISTS (SELECT 1 FROM backfill_run WHERE backfill_run.backfill = backfill.id)
    ORDER BY ended_at LIMIT ?2
)

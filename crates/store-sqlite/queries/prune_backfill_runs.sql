-- Runs of backfills that ended before a time, so many at once, those of the oldest first.
-- Index: backfill_ended, in its order; the condition is its own, or it would not be used. For each, the key of its runs.
-- Concurrency: only the writer runs it.
DELETE FROM backfill_run WHERE (backfill, at) IN (
    SELECT run.backfill, run.at FROM backfill CROSS JOIN backfill_run AS run ON run.backfill = backfill.id
    WHERE backfill.state <> 1 AND backfill.ended_at < ?1 ORDER BY backfill.ended_at LIMIT ?2
)

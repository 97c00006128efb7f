-- The runs of backfills that ended before a time, so many at once, removed by retention.
-- Index: backfill_ended and the primary key.
-- Concurrency: the runs of a backfill that has ended are hardly changed; what another removed meanwhile is gone.
DELETE FROM backfill_run WHERE (backfill, at) IN (
    SELECT run.backfill, run.at
    FROM backfill JOIN backfill_run AS run ON run.backfill = backfill.id
    WHERE backfill.state <> 1 AND backfill.ended_at < $1
    ORDER BY backfill.ended_at LIMIT $2
)

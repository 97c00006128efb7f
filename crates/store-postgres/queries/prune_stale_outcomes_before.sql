-- Late outcomes from before a time, so many at once; also of jobs that are still there.
-- Index: stale_outcome_at.
-- Concurrency: what another removed meanwhile is gone.
DELETE FROM stale_outcome WHERE (job, attempt, worker) IN (
    SELECT job, attempt, worker FROM stale_outcome WHERE at < $1 ORDER BY at LIMIT $2
)

-- Planned times from before a time, so many at once, the oldest first.
-- Guarantees: never one that is queued.
-- Index: occurrence_decided, in its order; the condition is its own, or it would not be used.
-- Concurrency: only the writer runs it.
DELETE FROM occurrence WHERE (schedule, at) IN (
    SELECT schedule, at FROM occurrence WHERE at < ?1 AND verdict <> 2 ORDER BY at LIMIT ?2
)

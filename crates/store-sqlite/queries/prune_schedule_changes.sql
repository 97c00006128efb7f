-- What was done to schedules before a time, so many at once, the oldest first.
-- Index: schedule_change_at, in its order.
-- Concurrency: only the writer runs it.
DELETE FROM schedule_change WHERE number IN (
    SELECT number FROM schedule_change WHERE at < ?1 ORDER BY at LIMIT ?2
)

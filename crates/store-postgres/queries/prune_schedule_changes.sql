-- What was done to schedules before a time, so many at once, removed by retention.
-- Index: schedule_change_at and the primary key.
-- Concurrency: nobody else changes them.
DELETE FROM schedule_change WHERE (schedule, number) IN (
    SELECT schedule, number FROM schedule_change WHERE at < $1 ORDER BY at LIMIT $2
)

-- Deliveries from before a time, so many at once, the oldest first.
-- Index: the primary key, in its order.
-- Concurrency: only the writer runs it.
DELETE FROM delivery WHERE (at, job) IN (
    SELECT at, job FROM delivery WHERE at < ?1 ORDER BY at, job LIMIT ?2
)

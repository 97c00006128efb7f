-- Tasks whose last failure was before a time, so many at once, removed by retention.
-- Index: ailing_last and the primary key.
-- Concurrency: one that a dispatch is changing has just failed or is well, and is passed over.
DELETE FROM ailing WHERE task IN (
    SELECT task FROM ailing WHERE last < $1 ORDER BY last, task LIMIT $2 FOR UPDATE SKIP LOCKED
)

-- Ailing tasks that failed last before a time, so many at once, the oldest first.
-- Index: ailing_last, in its order.
-- Concurrency: only the writer runs it.
DELETE FROM ailing WHERE task IN (
    SELECT task FROM ailing WHERE last < ?1 ORDER BY last LIMIT ?2
)

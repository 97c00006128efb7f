-- Messages from before a time, so many at once, removed by retention.
-- Index: the primary key.
-- Concurrency: nobody else changes them.
DELETE FROM delivery WHERE (at, job) IN (SELECT at, job FROM delivery WHERE at < $1 ORDER BY at, job LIMIT $2)

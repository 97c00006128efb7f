-- Workers that were last seen before a time, so many at once, the oldest first.
-- Index: worker_last_seen.
-- Concurrency: a worker that is seen meanwhile is told again by the servers that it is connected to.
DELETE FROM worker WHERE id IN (
    SELECT id FROM worker WHERE last_seen_at < $1 ORDER BY last_seen_at, id LIMIT $2
)

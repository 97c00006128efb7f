-- Workers that were last seen before a time, so many at once, the oldest first.
-- Index: worker_last_seen, in its order.
-- Concurrency: only the writer runs it.
DELETE FROM worker WHERE id IN (
    SELECT id FROM worker WHERE last_seen_at < ?1 ORDER BY last_seen_at, id LIMIT ?2
)

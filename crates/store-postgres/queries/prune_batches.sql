-- Removes batches that ended before a time, so many at once, the oldest first.
-- Guarantees: never one that goes on.
-- Index: batch_ended, in its order.
-- Concurrency: a batch that has ended does not change any more.
DELETE FROM batch WHERE id IN (SELECT id FROM batch WHERE ended_at < $1 ORDER BY ended_at, id LIMIT $2)

-- Batches that are to be looked at by now, the longest overdue first, after one of them.
-- Guarantees: each once.
-- Index: batch_wake, in its order.
-- Concurrency: a snapshot.
SELECT wake_at, id FROM batch
WHERE wake_at <= $1 AND (wake_at, id) > ($2, $3)
ORDER BY wake_at, id LIMIT $4

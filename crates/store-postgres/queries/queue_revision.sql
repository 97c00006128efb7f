-- The revision of a queue; no row if it has none.
-- Index: the primary key.
-- Concurrency: after bump_queues, so that nobody else changes it.
SELECT revision FROM queue WHERE namespace = $1 AND name = $2

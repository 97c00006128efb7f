-- The revision of all changes of queues.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT revision FROM queue_counter WHERE id = 1

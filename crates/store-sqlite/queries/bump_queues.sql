-- Counts a change of queues.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction of the change.
UPDATE queue_counter SET revision = revision + 1 WHERE id = 1

-- Counts a change of queues.
-- Index: the primary key.
-- Concurrency: holds off others who change a queue until the transaction has ended, so that revisions are committed in order.
UPDATE queue_counter SET revision = revision + 1 WHERE id = 1

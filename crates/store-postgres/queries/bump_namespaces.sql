-- Counts a change of a namespace, and the numbers that are given.
-- Index: the primary key.
-- Concurrency: holds off others who change a namespace until the transaction has ended, so that revisions are committed in order.
UPDATE namespace_counter SET revision = revision + 1, last_id = last_id + $1 WHERE id = 1 RETURNING last_id

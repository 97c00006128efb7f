-- Counts a change of a namespace, and the numbers that were given.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction of the change.
UPDATE namespace_counter SET revision = revision + 1, last_id = last_id + ?1 WHERE id = 1 RETURNING last_id

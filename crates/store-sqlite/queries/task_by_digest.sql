-- The interned task with this content.
-- Index: UNIQUE (digest).
-- Concurrency: run by the writer in the transaction of the insert.
SELECT id, number FROM task WHERE digest = ?1

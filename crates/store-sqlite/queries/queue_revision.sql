-- The revision of a queue; no row if it has none.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction of the change.
SELECT revision FROM queue WHERE namespace = ?1 AND name = ?2

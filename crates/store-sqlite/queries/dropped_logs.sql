-- Objects that nothing names any more, so many.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT path FROM dropped_log ORDER BY path LIMIT ?1

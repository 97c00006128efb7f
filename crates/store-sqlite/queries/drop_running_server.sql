-- A server that owns nothing any more.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
DELETE FROM running_server WHERE server = ?1

-- The shards of the last report of each server.
-- Index: none; there are as many as servers.
-- Concurrency: only the writer runs it.
SELECT server, shards FROM running_server

-- The shards of the last report of each server.
-- Index: the primary key, all of it; there are as many as servers.
-- Concurrency: after lock_count, so that there is one report at a time.
SELECT server, shards FROM running_server ORDER BY server

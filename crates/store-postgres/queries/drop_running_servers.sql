-- Servers that own nothing any more.
-- Index: the primary key.
-- Concurrency: after lock_count, so that there is one report at a time.
DELETE FROM running_server WHERE server = ANY ($1::uuid[])

-- The places of servers that own nothing any more.
-- Index: none; there are as many as servers times namespaces with such a quota.
-- Concurrency: after lock_count, so that there is one report at a time.
DELETE FROM running_place WHERE server = ANY ($1::uuid[])

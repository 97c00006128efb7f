-- The places of a server that owns nothing any more.
-- Index: none; there are as many as servers times namespaces with such a quota.
-- Concurrency: only the writer runs it.
DELETE FROM running_place WHERE server = ?1

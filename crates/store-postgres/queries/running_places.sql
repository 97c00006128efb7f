-- How many attempts of each namespace with such a quota each server may have running.
-- Index: the primary key, in its order. There are as many as servers times such namespaces.
-- Concurrency: after lock_count, so that there is one report at a time.
SELECT namespace, server, running, places, waiting, served_at FROM running_place ORDER BY namespace, server

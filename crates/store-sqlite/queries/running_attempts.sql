-- How many attempts of a namespace run, by the last reports of all servers.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT coalesce(sum(running), 0) FROM running_place WHERE namespace = ?1

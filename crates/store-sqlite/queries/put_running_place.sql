-- How many attempts of a namespace a server may have running.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO running_place (namespace, server, running, places, waiting, served_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (namespace, server) DO UPDATE SET
    running = excluded.running, places = excluded.places, waiting = excluded.waiting, served_at = excluded.served_at

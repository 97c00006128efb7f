-- A requester by its number.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT id, kind, name, person FROM requester WHERE id = ?1

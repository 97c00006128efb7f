-- Requesters by their numbers.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT id, kind, name, person FROM requester WHERE id = ANY ($1::integer[])

-- The number of a requester.
-- Index: requester_name.
-- Concurrency: a snapshot.
SELECT id FROM requester WHERE name = ?2 AND kind = ?1 AND person = ?3

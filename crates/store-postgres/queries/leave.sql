-- Removes a server that leaves.
-- Index: the primary key.
-- Concurrency: each server removes its own row.
DELETE FROM member WHERE id = $1

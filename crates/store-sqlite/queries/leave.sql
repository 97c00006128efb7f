-- Removes a server that leaves.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
DELETE FROM member WHERE id = ?1

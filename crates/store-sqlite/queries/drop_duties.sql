-- Gives up the duties of a server.
-- Index: none; there are few.
-- Concurrency: only the writer runs it.
UPDATE duty SET lease_until = 0 WHERE owner = ?1

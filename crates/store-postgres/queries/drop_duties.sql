-- Gives up the duties of a server.
-- Index: none; there are few.
-- Concurrency: a duty that somebody took meanwhile stays with them.
UPDATE duty SET lease_until = 0 WHERE owner = $1

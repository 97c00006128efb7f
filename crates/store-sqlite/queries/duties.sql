-- All duties, in order of name.
-- Index: none; there are few.
-- Concurrency: sees one state of the store.
SELECT name, owner, epoch, lease_until FROM duty ORDER BY name

-- All duties, in order of name.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT name, owner, epoch, lease_until FROM duty ORDER BY name

-- Workers and servers that were last used before a time, so many at once.
-- Index: none; they are few, and this is run seldom.
-- Concurrency: see src/nodes.rs.
DELETE FROM node WHERE number IN (SELECT number FROM node WHERE used_at < $1 LIMIT $2)

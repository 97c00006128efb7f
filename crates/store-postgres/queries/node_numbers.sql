-- The numbers of workers and servers, and when they were last remembered as used.
-- Index: UNIQUE (id).
-- Concurrency: a number never changes and is never given again.
SELECT id, number, used_at FROM node WHERE id = ANY ($1::uuid[])

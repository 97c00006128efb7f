-- All secrets of a namespace, in order of name.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT namespace, name, revision, created_at, created_by, changed_at, changed_by, sealed
FROM secret WHERE namespace = $1 ORDER BY namespace, name

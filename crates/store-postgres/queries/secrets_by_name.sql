-- The secrets of a namespace that have these names.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT namespace, name, revision, created_at, created_by, changed_at, changed_by, sealed
FROM secret WHERE namespace = $1 AND name = ANY ($2::text[])

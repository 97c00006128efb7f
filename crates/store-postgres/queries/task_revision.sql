-- The revision of a live named task.
-- Index: UNIQUE (id).
-- Concurrency: a snapshot.
SELECT revision FROM task WHERE id = $1 AND NOT deleted AND name IS NOT NULL

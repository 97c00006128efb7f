-- The revision of a live named task, and the artifact that it refers to, if it does.
-- Index: UNIQUE (id).
-- Concurrency: a snapshot; the update that follows asks for the same revision.
SELECT revision, artifact FROM task WHERE id = $1 AND NOT deleted AND name IS NOT NULL

-- One artifact, which is about to be changed.
-- Index: the primary key.
-- Concurrency: waits for tasks that are about to refer to it, and holds the next off. Whoever locks two does so in
-- the order of their ids.
SELECT id, name, size, sha256, state, at, detail, created_at, kind, namespace FROM artifact WHERE id = $1 FOR NO KEY UPDATE

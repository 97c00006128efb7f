-- One artifact.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT id, name, size, sha256, state, at, detail, created_at, kind, namespace FROM artifact WHERE id = $1

-- Pending artifacts after an id, so many, the oldest first.
-- Index: artifact_pending; the condition is its own, or it would not be used.
-- Concurrency: a snapshot.
SELECT id, name, size, sha256, state, at, detail, created_at, kind, namespace FROM artifact WHERE state = 1 AND id > ?1 ORDER BY id LIMIT ?2

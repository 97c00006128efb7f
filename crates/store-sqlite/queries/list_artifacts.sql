-- Artifacts of a namespace before an id, so many, the newest first.
-- Index: artifact_namespace, backwards.
-- Concurrency: a snapshot.
SELECT id, name, size, sha256, state, at, detail, created_at, kind, namespace FROM artifact WHERE namespace = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2

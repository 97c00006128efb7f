-- Stores a pending artifact, unless there is one with the same content.
-- Guarantees: of one content there is at most one that was not refused.
-- Index: the primary key and artifact_content.
-- Concurrency: of two who insert the same at once, the second waits for the first and stores nothing.
INSERT INTO artifact (id, name, size, sha256, state, at, created_at, used_at, kind, namespace)
VALUES ($1, $2, $3, $4, 1, $5, $6, $6, $7, $8)
ON CONFLICT (namespace, sha256, size, kind) WHERE state <> 3 DO NOTHING

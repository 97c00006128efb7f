-- Stores a pending artifact.
-- Guarantees: of one content there is in a namespace at most one that was not refused; a second one is a constraint violation.
-- Index: the primary key and artifact_content.
-- Concurrency: in the writer.
INSERT INTO artifact (id, name, size, sha256, state, at, detail, created_at, used_at, kind, namespace)
VALUES (?1, ?2, ?3, ?4, 1, ?5, NULL, ?6, ?6, ?7, ?8)

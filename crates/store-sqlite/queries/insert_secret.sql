-- Stores a new secret.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO secret (namespace, name, revision, created_at, changed_at, created_by, changed_by, sealed)
VALUES (?1, ?2, 1, ?3, ?3, ?4, ?4, ?5)

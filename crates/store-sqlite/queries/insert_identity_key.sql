-- Stores a key.
-- Guarantees: its name is that of no other key of its namespace that is neither revoked nor replaced.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO identity_key (id, changed, digest, name, namespace, rights, owner, created_at, created_by, expires_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

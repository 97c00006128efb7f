-- Stores a new namespace.
-- Guarantees: a name is held by one row that was not deleted; a second one is a constraint violation.
-- Index: the primary key; namespace_name follows.
-- Concurrency: only the writer runs it.
INSERT INTO namespace (id, name, revision, created_at, created_by, changed_at, changed_by, spec)
VALUES (?1, ?2, 1, ?3, ?4, ?3, ?4, ?5)

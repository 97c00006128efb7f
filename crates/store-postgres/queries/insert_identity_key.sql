-- Stores a key, unless there are as many as there can be.
-- Guarantees: one row, or none if there is no room; its name is that of no other key of its namespace that is neither revoked nor replaced.
-- Index: the primary key, whose entries are counted.
-- Concurrency: after next_identities_revision, so that the number stays true.
INSERT INTO identity_key (id, changed, digest, name, namespace, rights, owner, created_at, created_by, expires_at)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10 WHERE (SELECT count(*) FROM identity_key) < $11

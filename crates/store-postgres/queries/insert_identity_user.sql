-- Stores a person, unless there are as many as there can be.
-- Guarantees: one row, or none if there is no room; nobody else who is not deleted has the name or the subject.
-- Index: the primary key, whose entries are counted.
-- Concurrency: after next_identities_revision, so that the number stays true.
INSERT INTO identity_user (id, changed, name, mail, role, password, disabled, revision, created_at, created_by, changed_at, changed_by,
                           openid_issuer, openid_subject)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
WHERE (SELECT count(*) FROM identity_user) < $15

-- Stores a person.
-- Guarantees: nobody else who is not deleted has the name or the subject.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO identity_user (id, changed, name, mail, role, password, disabled, revision, created_at, created_by, changed_at, changed_by,
                           openid_issuer, openid_subject)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)

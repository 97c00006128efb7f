-- Stores a session, unless there are as many as there can be.
-- Guarantees: one row, or none if there is no room.
-- Index: the primary key, whose entries are counted.
-- Concurrency: after next_identities_revision, so that the number stays true.
INSERT INTO identity_session (id, changed, digest, user_id, created_at, expires_at, last_used_at, address)
SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE (SELECT count(*) FROM identity_session) < $9

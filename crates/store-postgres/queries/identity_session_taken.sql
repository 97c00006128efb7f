-- Whether there is a session of this id, or was one that is not removed yet.
-- Index: the primary key.
-- Concurrency: after next_identities_revision, so that it stays true.
SELECT 1 FROM identity_session WHERE id = $1

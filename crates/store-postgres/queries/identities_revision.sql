-- The number of the last change of a key, a person or a session.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT value::bigint FROM meta WHERE key = 'identities'

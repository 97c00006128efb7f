-- What made a job in history.
-- Guarantees: no row if it is not there.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT source FROM history WHERE id = ?1

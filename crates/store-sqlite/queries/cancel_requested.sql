-- Whether a job was asked to end.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT 1 FROM cancel_request WHERE job = ?1

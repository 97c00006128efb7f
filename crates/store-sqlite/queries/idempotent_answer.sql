-- The answer kept under a key that has not expired.
-- Index: the primary key.
-- Concurrency: run by the writer in the transaction that would store the jobs; before that, in a snapshot, to
-- recognize a repetition early.
SELECT fingerprint, answer FROM idempotency WHERE namespace = ?3 AND key = ?1 AND expires_at > ?2

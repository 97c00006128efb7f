-- The answer kept under a key that has not expired.
-- Index: the primary key.
-- Concurrency: run by the writer in the transaction that would store the jobs.
SELECT fingerprint, answer FROM idempotency WHERE key = ?1 AND expires_at > ?2

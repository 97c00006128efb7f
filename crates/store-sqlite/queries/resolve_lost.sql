-- Gives a lost job the end that its attempt reported after all, with what else is known of it.
-- Guarantees: one row or none; none when the job is not lost or its last attempt is another.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
UPDATE history SET state = ?3, ending = ?4, finished_at = ?5, early = ?6, reason = ?7, output = ?8, details = ?9
WHERE id = ?1 AND attempt = ?2 AND state = 4

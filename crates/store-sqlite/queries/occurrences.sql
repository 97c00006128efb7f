-- The occurrences of one schedule from a time on and before another. The caller appends the order and stops
-- after a bounded number of rows.
-- Index: the primary key, in order of time.
-- Concurrency: a snapshot.
SELECT schedule, at, slot, verdict, decided_at, marks, count, job, reason, started_at, requested_by FROM occurrence
WHERE schedule = ?1 AND at >= ?2 AND at < ?3

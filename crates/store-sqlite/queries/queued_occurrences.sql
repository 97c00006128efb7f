-- The planned times of a shard that wait for the run before them, in order of (schedule, time).
-- Index: occurrence_queued, in its order; the condition is its own, or it would not be used.
-- Concurrency: a snapshot, the same as for the watermark.
SELECT schedule, at, slot, verdict, decided_at, marks, count, job, reason, started_at, requested_by FROM occurrence
WHERE shard = ?1 AND verdict = 2
ORDER BY schedule, at

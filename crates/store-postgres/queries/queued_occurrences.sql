-- What waits in a shard for the run before it, in order of (schedule, time).
-- Index: occurrence_queued of the partitions, merged; the condition is its own, or it would not be used.
-- Concurrency: in the snapshot of a takeover.
SELECT schedule, at, slot, verdict, decided_at, marks, count, job, reason, started_at, requested_by FROM occurrence
WHERE shard = $1 AND verdict = 2
ORDER BY schedule, at

-- Hot jobs of a shard whose end its schedules wait for, in order of id.
-- Index: job_tracked, in its order; the condition is its own, or it would not be used.
-- Concurrency: in the snapshot of a takeover.
SELECT id, source FROM job WHERE shard = $1 AND source >= '\x80'::bytea ORDER BY id

-- The hot jobs of a shard whose schedules have to know when they end, in order of id.
-- Index: job_tracked, in its order; the condition is its own, or it would not be used.
-- Concurrency: a snapshot, the same as for the watermark.
SELECT id, source FROM job WHERE shard = ?1 AND source >= x'80' ORDER BY id

-- Finished jobs that ended before they were first due, such as deleted ones: their ids lie in the future.
-- Index: history_early of the partitions; the condition is its own, or it would not be used.
-- Concurrency: as prunable_jobs.
SELECT id FROM history WHERE early AND id >= $1 AND finished_at < $2 ORDER BY finished_at, id LIMIT $3 FOR UPDATE

-- Finished jobs of a namespace other than the default one that were first due before an id and finished before a time, oldest first.
-- Index: those on namespace and id of the partitions that have rows from before the time, merged.
-- Concurrency: as prunable_jobs.
SELECT id FROM history WHERE namespace = $4 AND id < $1 AND finished_at < $2 ORDER BY id LIMIT $3 FOR UPDATE

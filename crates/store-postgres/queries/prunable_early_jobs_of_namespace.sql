-- Finished jobs of a namespace other than the default one that ended before they were first due.
-- Index: history_early of the partitions; those of other namespaces are passed over.
-- Concurrency: as prunable_jobs.
SELECT id FROM history WHERE early AND id >= $1 AND finished_at < $2 AND namespace = $4 ORDER BY finished_at, id LIMIT $3
FOR UPDATE

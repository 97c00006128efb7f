-- Finished jobs of a namespace other than the default one that ended before they were first due.
-- Index: history_early of the partitions, in its order; those of other namespaces are passed over. With a plain comparison
-- the index on namespaces would be used, and all jobs that it finds put in order.
-- Concurrency: as prunable_jobs.
SELECT id FROM history WHERE early AND id >= $1 AND finished_at < $2 AND coalesce(namespace, 0) = $4
ORDER BY finished_at, id LIMIT $3 FOR UPDATE

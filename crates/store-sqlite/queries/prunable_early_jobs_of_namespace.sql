-- Finished jobs of a namespace other than the default one that ended before they were first due.
-- Index: history_early; those of other namespaces are passed over.
-- Concurrency: run by the writer in the transaction that removes them.
SELECT id FROM history WHERE early = 1 AND finished_at < ?1 AND +namespace = ?3 ORDER BY finished_at, id LIMIT ?2

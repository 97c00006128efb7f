-- Finished jobs of a namespace other than the default one that were first due before an id and finished before a time, oldest first.
-- Index: history_namespace, in its order; rows that finished later are few and stay.
-- Concurrency: run by the writer in the transaction that removes them.
SELECT id FROM history WHERE namespace = ?4 AND id < ?1 AND finished_at < ?2 ORDER BY id LIMIT ?3

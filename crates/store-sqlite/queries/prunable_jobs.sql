-- Finished jobs that were first due before an id and finished before a time, oldest first.
-- Index: the primary key of history, from its beginning; rows that finished later are few and stay.
-- Concurrency: run by the writer in the transaction that removes them.
SELECT id FROM history WHERE id < ?1 AND finished_at < ?2 ORDER BY id LIMIT ?3

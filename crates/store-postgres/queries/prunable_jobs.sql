-- Finished jobs that were first due before an id and finished before a time, oldest first.
-- Index: those on id of the partitions, merged; rows that finished later are few and stay.
-- Concurrency: locks what it finds, for the transaction that removes it: an owner may be at it as well.
SELECT id FROM history WHERE id < $1 AND finished_at < $2 ORDER BY id LIMIT $3 FOR UPDATE

-- Whether and since when a task ails.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT task, since, last, failures FROM ailing WHERE task = ?1

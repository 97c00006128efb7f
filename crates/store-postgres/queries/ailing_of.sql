-- Those of some tasks that ail.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT task, since, last, failures FROM ailing WHERE task = ANY ($1::uuid[])

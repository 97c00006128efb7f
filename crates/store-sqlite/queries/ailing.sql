-- The tasks that failed last, the latest first. The caller stops when it has enough.
-- Index: ailing_last, backwards; no more of it is read than is asked for.
-- Concurrency: a snapshot.
SELECT task, since, last, failures FROM ailing ORDER BY last DESC, task DESC

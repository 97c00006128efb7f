-- The tasks of a namespace that failed last, the latest first. The caller stops when it has enough.
-- Index: ailing_namespace, backwards; no more of it is read than is asked for.
-- Concurrency: a snapshot.
SELECT task, since, last, failures FROM ailing WHERE namespace = ?1 ORDER BY last DESC, task DESC

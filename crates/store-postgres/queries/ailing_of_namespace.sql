-- Tasks that ail, those that failed last first, before a time and a task.
-- Index: ailing_namespace, in its order backwards.
-- Concurrency: a snapshot.
SELECT task, since, last, failures FROM ailing WHERE namespace = $4 AND (last, task) < ($2, $3) ORDER BY last DESC, task DESC LIMIT $1

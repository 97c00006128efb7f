-- Tasks that ail, those that failed last first.
-- Index: ailing_last, in its order backwards.
-- Concurrency: a snapshot.
SELECT task, since, last, failures FROM ailing ORDER BY last DESC, task DESC LIMIT $1

-- Messages of all rules, the latest first, before a time and a job.
-- Index: the primary key, in its order backwards.
-- Concurrency: a snapshot.
SELECT rule, at, job, events, summary, namespace FROM delivery
WHERE namespace = $4 AND (at, job) < ($1, $2) ORDER BY at DESC, job DESC LIMIT $3

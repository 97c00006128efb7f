-- Deliveries of all rules, the latest first, before a time and job. The caller stops when it has enough.
-- Index: the primary key, backwards.
-- Concurrency: a snapshot.
SELECT rule, at, job, events, summary FROM delivery
WHERE (at, job) < (?1, ?2) ORDER BY at DESC, job DESC

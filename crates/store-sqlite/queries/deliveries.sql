-- Deliveries of all rules of a namespace, the latest first, before a time and job. The caller stops when it has enough.
-- Index: delivery_namespace, backwards.
-- Concurrency: a snapshot.
SELECT rule, at, job, events, summary, namespace FROM delivery
WHERE namespace = ?3 AND (at, job) < (?1, ?2) ORDER BY at DESC, job DESC

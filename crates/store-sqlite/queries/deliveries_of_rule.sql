-- Deliveries of a rule, the latest first, before a time and job. The caller stops when it has enough.
-- Index: delivery_rule, backwards.
-- Concurrency: a snapshot.
SELECT rule, at, job, events, summary, namespace FROM delivery
WHERE namespace = ?4 AND rule = ?3 AND (at, job) < (?1, ?2) ORDER BY at DESC, job DESC

-- Messages of a rule, the latest first, before a time and a job. The rule is compared as part of the order, or those of
-- others would be read as well where there are few rules.
-- Index: delivery_rule, in its order backwards.
-- Concurrency: a snapshot.
SELECT rule, at, job, events, summary, namespace FROM delivery
WHERE namespace = $5 AND rule >= $4 AND (rule, at, job) < ($4, $1, $2) ORDER BY rule DESC, at DESC, job DESC LIMIT $3

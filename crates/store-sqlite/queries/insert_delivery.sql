-- Puts on record that a message was handed to a job.
-- Guarantees: the same time and job again is a constraint violation.
-- Index: the primary key; delivery_rule and delivery_namespace follow.
-- Concurrency: only the writer runs it.
INSERT INTO delivery (at, job, rule, events, summary, namespace) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

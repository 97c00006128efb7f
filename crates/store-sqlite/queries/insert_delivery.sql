-- Puts on record that a message was handed to a job.
-- Guarantees: the same time and job again is a constraint violation.
-- Index: the primary key; delivery_rule follows.
-- Concurrency: only the writer runs it.
INSERT INTO delivery (at, job, rule, events, summary) VALUES (?1, ?2, ?3, ?4, ?5)

-- Records messages that were handed to jobs.
-- Guarantees: all, or a constraint violation if a job has one at that time.
-- Index: the primary key.
-- Concurrency: in the transaction that stores the jobs.
INSERT INTO delivery (rule, at, job, events, summary, namespace)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::integer[], $5::text[], $6::integer[])

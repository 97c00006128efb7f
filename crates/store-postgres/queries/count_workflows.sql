-- How many workflows a namespace has: each has a first version.
-- Guarantees: exact.
-- Index: the primary key, all of its namespace: there are few.
-- Concurrency: after lock_count, so that the number stays.
SELECT count(*) FROM workflow WHERE namespace = $1 AND version = 1

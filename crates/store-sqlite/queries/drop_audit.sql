-- Removes the lines of the audit log up to a number.
-- Guarantees: none after it is touched.
-- Index: the primary key.
-- Concurrency: only the writer runs it, after it has moved the base.
DELETE FROM audit WHERE seq <= ?1

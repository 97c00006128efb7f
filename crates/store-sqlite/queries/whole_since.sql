-- From which epoch on nothing is missing from the records of starts and ends.
-- Guarantees: no row if nothing was ever lost.
-- Index: the primary key.
-- Concurrency: changes only while the store is opened.
SELECT value FROM meta WHERE key = 'whole_since'

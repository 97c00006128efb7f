-- How many secrets a namespace has.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
SELECT count(*) FROM secret WHERE namespace = ?1

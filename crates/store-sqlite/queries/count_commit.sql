-- Counts the commit that it is part of.
-- Guarantees: the number is that of the last commit that the database holds.
-- Index: the primary key.
-- Concurrency: only the writer runs it, once in each transaction.
UPDATE meta SET value = ?1 WHERE key = 'commits'

-- The input of a job in history.
-- Guarantees: no row if it is not there.
-- Index: the primary key.
-- Concurrency: run by the writer.
SELECT input FROM history WHERE id = ?1

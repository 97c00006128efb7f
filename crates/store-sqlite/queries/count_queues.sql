-- How many queues of a namespace have a row, and how many of all.
-- Index: the primary key. Reads all rows, of which there are at most 10,000; only for a queue that had no row.
-- Concurrency: only the writer runs it, in the transaction of the change.
SELECT count(*) FILTER (WHERE namespace = ?1), count(*) FROM queue

-- How many rules there are, and how many of a namespace. They are few.
-- Index: none; the table is read through.
-- Concurrency: run by the writer in the transaction that adds one.
SELECT count(*), coalesce(sum(namespace = ?1), 0) FROM notification_rule

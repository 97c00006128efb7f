-- How many rules there are. They are few.
-- Index: none; the table is read through.
-- Concurrency: run by the writer in the transaction that adds one.
SELECT count(*) FROM notification_rule

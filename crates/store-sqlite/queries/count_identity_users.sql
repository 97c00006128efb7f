-- How many people there are. They are few.
-- Index: none; an index is read through.
-- Concurrency: run by the writer in the transaction that adds one.
SELECT count(*) FROM identity_user

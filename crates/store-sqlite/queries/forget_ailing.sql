-- A task is well again.
-- Index: the primary key; ailing_last follows.
-- Concurrency: only the writer runs it.
DELETE FROM ailing WHERE task = ?1

-- Forgets tasks that are well again.
-- Index: the primary key.
-- Concurrency: what another removed meanwhile is gone.
DELETE FROM ailing WHERE task = ANY ($1::uuid[])

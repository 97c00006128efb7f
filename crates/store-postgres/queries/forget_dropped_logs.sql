-- Objects that were deleted.
-- Index: the primary key.
-- Concurrency: what another removed meanwhile is gone.
DELETE FROM dropped_log WHERE path = ANY ($1::text[])

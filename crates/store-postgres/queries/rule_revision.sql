-- The revision of a rule that is about to be changed.
-- Index: the primary key.
-- Concurrency: a dispatch or a removal at the same time waits for the change, or is waited for.
SELECT revision FROM notification_rule WHERE namespace = $2 AND name = $1 FOR UPDATE

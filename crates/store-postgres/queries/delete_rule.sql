-- Removes a rule, with what waits to be sent.
-- Guarantees: only the expected revision is removed, if one is expected.
-- Index: the primary key.
-- Concurrency: a dispatch at the same time is waited for, or finds it gone.
DELETE FROM notification_rule WHERE namespace = $3 AND name = $1 AND ($2::integer IS NULL OR revision = $2)

-- Removes a rule, with what waits to be sent.
-- Index: the primary key.
-- Concurrency: a dispatch at the same time is waited for, or finds it gone.
DELETE FROM notification_rule WHERE name = $1

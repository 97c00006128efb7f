-- A rule goes, and what waits to be sent goes with it.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
DELETE FROM notification_rule WHERE namespace = ?2 AND name = ?1

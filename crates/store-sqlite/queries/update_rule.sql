-- What waits to be sent by a rule is something else now.
-- Guarantees: only if it has the version that the caller knows.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE notification_rule SET state = ?3, version = version + 1 WHERE namespace = ?4 AND name = ?1 AND version = ?2

-- A rule has a new spec; what waits to be sent stays, and whoever is about to send by the former spec is stopped.
-- Index: the primary key.
-- Concurrency: the row is locked by rule_revision.
UPDATE notification_rule SET spec = $2, changed_at = $3, changed_by = $4, revision = $5, version = version + 1 WHERE namespace = $6 AND name = $1

-- A rule has a new spec. What waits to be sent stays; whoever is about to send by the former spec is stopped.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE notification_rule SET spec = ?2, revision = ?3, changed_at = ?4, changed_by = ?5, version = version + 1 WHERE namespace = ?6 AND name = ?1

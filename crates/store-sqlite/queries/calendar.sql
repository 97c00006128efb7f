-- One calendar.
-- Index: UNIQUE (namespace, name).
-- Concurrency: a snapshot.
SELECT name, dates, revision, changed_at, changed_by, namespace FROM calendar WHERE namespace = ?2 AND name = ?1

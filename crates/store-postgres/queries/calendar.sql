-- One calendar.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT name, revision, changed_at, changed_by, dates, namespace FROM calendar WHERE namespace = $2 AND name = $1

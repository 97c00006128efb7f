-- One calendar.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT name, revision, changed_at, changed_by, dates FROM calendar WHERE name = $1

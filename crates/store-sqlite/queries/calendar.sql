-- One calendar.
-- Index: the unique name.
-- Concurrency: a snapshot.
SELECT name, dates, revision, changed_at, changed_by FROM calendar WHERE name = ?1

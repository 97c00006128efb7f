-- Stores a calendar, in the place of the one with its name.
-- Guarantees: its revision is one more than any that was given before, also to a calendar that is gone.
-- Index: UNIQUE (namespace, name).
-- Concurrency: only the writer runs it.
INSERT OR REPLACE INTO calendar (name, dates, changed_at, changed_by, namespace) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING revision

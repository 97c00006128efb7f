-- A task ails. Replaces what was known of it.
-- Index: the primary key; ailing_last follows.
-- Concurrency: only the writer runs it.
INSERT OR REPLACE INTO ailing (task, since, last, failures) VALUES (?1, ?2, ?3, ?4)

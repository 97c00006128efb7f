-- Removes a calendar.
-- Guarantees: one row or none; none when it is not there.
-- Index: UNIQUE (namespace, name).
-- Concurrency: only the writer runs it, in the transaction in which it found that no schedule refers to it.
DELETE FROM calendar WHERE namespace = ?2 AND name = ?1

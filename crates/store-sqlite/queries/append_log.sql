-- Stores a piece of an attempt's log that overlaps no other.
-- Index: UNIQUE (job, attempt, offset).
-- Concurrency: only the writer runs it, in the transaction that read what is there. Not fenced: a log decides nothing.
INSERT INTO log (job, attempt, offset, bytes, marks) VALUES (?1, ?2, ?3, ?4, ?5)

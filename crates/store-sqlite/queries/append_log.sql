-- Stores a piece of an attempt's log; one that is there already is left as it is.
-- Index: UNIQUE (job, attempt, offset).
-- Concurrency: only the writer runs it. Not fenced: a log decides nothing.
INSERT OR IGNORE INTO log (job, attempt, offset, bytes, marks) VALUES (?1, ?2, ?3, ?4, ?5)

-- Records where the log of an attempt is that did not end its job, and of which namespace it is.
-- Guarantees: one row or none; none when another log is recorded than the one that is replaced.
-- Index: the primary key.
-- Concurrency: only the writer runs it. Not fenced: a log decides nothing.
UPDATE attempt SET log_path = ?3, log_bytes = ?4, namespace = ?6 WHERE job = ?1 AND attempt = ?2 AND log_path IS ?5

-- Records where the log of the attempt is that ended a job.
-- Guarantees: one row or none; none when another log is recorded than the one that is replaced.
-- Index: the primary key.
-- Concurrency: only the writer runs it. Not fenced: a log decides nothing.
UPDATE history SET log_path = ?3, log_bytes = ?4 WHERE id = ?1 AND attempt = ?2 AND log_path IS ?5

-- Adds a line to the audit log.
-- Guarantees: a number is used once.
-- Index: the primary key.
-- Concurrency: only the writer runs it, after it has moved the head.
INSERT INTO audit (seq, at, line, hash) VALUES (?1, ?2, ?3, ?4)

-- Remembers an object that nothing names any more.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction that names another.
INSERT OR IGNORE INTO dropped_log (path) VALUES (?1)

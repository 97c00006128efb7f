-- Stores the row of a queue.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction that read its revision.
INSERT OR REPLACE INTO queue (namespace, name, revision, state, state_at, state_by, note, changed_at, changed_by, spec)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)

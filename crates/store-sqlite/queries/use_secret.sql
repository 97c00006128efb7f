-- A secret that a task refers to.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction that stores the task.
INSERT OR IGNORE INTO secret_use (namespace, secret, task) VALUES (?1, ?2, ?3)

-- A file that a task reads.
-- Index: the primary key.
-- Concurrency: in the writer, which has seen that the artifact is there.
INSERT OR IGNORE INTO task_file (artifact, task) VALUES (?1, ?2)

-- A task that no row refers to, removed by retention.
-- Index: the primary key.
-- Concurrency: only the writer runs it. Its number may be given to a new task, so the writer forgets it.
DELETE FROM task WHERE number = ?1

-- Whether a live task of a namespace has this name.
-- Index: task_live_name; the conditions are its own, or it would not be used.
-- Concurrency: run by the writer in the transaction of the insert.
SELECT 1 FROM task WHERE namespace = ?2 AND name = ?1 AND deleted = 0 AND name IS NOT NULL

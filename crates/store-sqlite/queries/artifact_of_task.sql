-- The artifact that a task refers to, if it does.
-- Index: UNIQUE (id).
-- Concurrency: in the writer.
SELECT artifact FROM task WHERE id = ?1 AND artifact IS NOT NULL

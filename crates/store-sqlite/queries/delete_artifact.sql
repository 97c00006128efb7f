-- Removes an artifact.
-- Index: the primary key.
-- Concurrency: in the writer, which has seen that no task refers to it.
DELETE FROM artifact WHERE id = ?1

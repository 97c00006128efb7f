-- The revision of a live named task, to compare with before an update.
-- Index: UNIQUE (id).
-- Concurrency: run by the writer in the transaction of the update.
SELECT revision FROM task WHERE id = ?1 AND deleted = 0 AND name IS NOT NULL

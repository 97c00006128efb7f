-- A finished job, removed by retention.
-- Index: the key, which begins with the job's id.
-- Concurrency: only the writer runs it.
DELETE FROM history WHERE id = ?1

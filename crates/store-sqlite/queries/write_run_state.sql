-- As write_run, for a step that leaves its times as they are, as most do: SQLite writes the indexes of all columns that are set,
-- whatever they were before.
-- Guarantees: one row, or none if the run is gone or has other times.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE workflow_run SET status = ?2, state = '', packed = ?3 WHERE id = ?1 AND wake_at IS ?4 AND ended_at IS ?5

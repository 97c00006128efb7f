-- Writes what a run has come to.
-- Guarantees: one row, or none if the run is gone.
-- Index: the primary key; workflow_run_wake and workflow_run_ended follow.
-- Concurrency: only the writer runs it.
UPDATE workflow_run SET status = ?2, state = '', packed = ?3, wake_at = ?4, ended_at = ?5 WHERE id = ?1

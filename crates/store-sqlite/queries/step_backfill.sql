-- How far a backfill came.
-- Guarantees: only if it has the version that the caller knows. The answer is its schedule.
-- Index: the primary key; backfill_running and backfill_ended follow.
-- Concurrency: only the writer runs it.
UPDATE backfill
SET version = version + 1, state = ?3, reached = ?4, total = ?5, made = ?6, passed_over = ?7, succeeded = ?8,
    failed = ?9, cancelled = ?10, ended_at = ?11, ended_by = ?12, note = ?13
WHERE id = ?1 AND version = ?2
RETURNING schedule

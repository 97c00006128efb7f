-- The job of a time of a backfill has ended.
-- Index: the primary key; backfill_run_open follows.
-- Concurrency: only the writer runs it.
UPDATE backfill_run SET state = ?3 WHERE backfill = ?1 AND at = ?2

-- A time of a backfill gets a job.
-- Guarantees: one that has a run already is a constraint violation.
-- Index: the primary key; backfill_run_open and backfill_run_time follow.
-- Concurrency: only the writer runs it.
INSERT INTO backfill_run (backfill, at, schedule, job) VALUES (?1, ?2, ?3, ?4)

-- The runs of a backfill whose jobs are not known to have ended, in order of time.
-- Index: backfill_run_open, in its order, and by its name: the key would do, and read all that have ended.
-- Concurrency: a snapshot.
SELECT at, job, state FROM backfill_run INDEXED BY backfill_run_open
WHERE backfill = ?1 AND state IS NULL ORDER BY at LIMIT ?2

-- How many backfills are running and make jobs: not those that were aborted and wait for the end of their jobs.
-- Index: backfill_running; the first condition is its own, or it would not be used.
-- Concurrency: run by the writer in the transaction that adds one.
SELECT count(*) FROM backfill WHERE state = 1 AND ended_at IS NULL

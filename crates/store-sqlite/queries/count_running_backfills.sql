-- How many backfills are running and make jobs, and how many of a namespace: not those that were aborted and wait for the
-- end of their jobs.
-- Index: backfill_running; the first condition is its own, or it would not be used.
-- Concurrency: run by the writer in the transaction that adds one.
SELECT count(*), coalesce(sum(namespace = ?1), 0) FROM backfill WHERE state = 1 AND ended_at IS NULL

-- A backfill has come further.
-- Guarantees: the answer is its schedule, or nothing if it has another version or is gone.
-- Index: the primary key; the partial ones follow when it ends.
-- Concurrency: locks the row for the transaction that makes the jobs. Who steps at the same time is waited for; then the
-- version is another.
UPDATE backfill SET
    version = version + 1, state = $3, reached = $4, total = $5, made = $6, passed_over = $7, succeeded = $8, failed = $9,
    cancelled = $10, ended_at = $11, ended_by = $12, note = $13
WHERE id = $1 AND version = $2
RETURNING schedule

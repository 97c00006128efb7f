-- Stores a backfill, unless as many are running as can be, of its namespace or of all. Those that were aborted and wait for the end of their jobs do
-- not count.
-- Guarantees: one row, or none if there is no room.
-- Index: backfill_running, whose entries are looked at.
-- Concurrency: after lock_count, so that the number does not grow.
INSERT INTO backfill (
    id, schedule, schedule_name, spec, created_at, created_by, version,
    state, reached, total, made, passed_over, succeeded, failed, cancelled, ended_at, ended_by, note, namespace
)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $20
WHERE (SELECT count(*) < $21 AND count(*) FILTER (WHERE namespace = $20) < $19 FROM backfill WHERE state = 1 AND ended_at IS NULL)

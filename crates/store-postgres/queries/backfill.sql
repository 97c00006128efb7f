-- A backfill.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT id, schedule, schedule_name, spec, created_at, created_by, version,
       state, reached, total, made, passed_over, succeeded, failed, cancelled, ended_at, ended_by, note, namespace
FROM backfill WHERE id = $1

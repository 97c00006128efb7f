-- All backfills that are running, in order of id. They are few.
-- Index: backfill_running, in its order; the condition is its own, or it would not be used.
-- Concurrency: a snapshot.
SELECT id, schedule, schedule_name, spec, created_at, created_by, version, state, reached, total, made, passed_over,
       succeeded, failed, cancelled, ended_at, ended_by, note, namespace
FROM backfill WHERE state = 1 ORDER BY id

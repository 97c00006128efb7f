-- Backfills of a schedule, the latest first.
-- Index: backfill_schedule, in its order backwards.
-- Concurrency: a snapshot.
SELECT id, schedule, schedule_name, spec, created_at, created_by, version,
       state, reached, total, made, passed_over, succeeded, failed, cancelled, ended_at, ended_by, note, namespace
FROM backfill WHERE schedule = $3 AND (namespace = $4) IS TRUE AND id < $1 ORDER BY id DESC LIMIT $2

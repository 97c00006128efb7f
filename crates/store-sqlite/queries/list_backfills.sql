-- Backfills of all schedules of a namespace, the latest first, before an id.
-- Index: backfill_namespace, backwards.
-- Concurrency: a snapshot.
SELECT id, schedule, schedule_name, spec, created_at, created_by, version, state, reached, total, made, passed_over,
       succeeded, failed, cancelled, ended_at, ended_by, note, namespace
FROM backfill WHERE namespace = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2

-- Stores a new backfill.
-- Guarantees: one with the same id is a constraint violation.
-- Index: the primary key; backfill_schedule and backfill_running follow.
-- Concurrency: only the writer runs it.
INSERT INTO backfill (id, schedule, schedule_name, spec, created_at, created_by, version, state, reached, total, made,
                      passed_over, succeeded, failed, cancelled, ended_at, ended_by, note, namespace)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)

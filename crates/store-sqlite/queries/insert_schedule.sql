-- Stores a schedule.
-- Guarantees: one row or none; none when its name in its namespace or its id is taken.
-- Index: the primary key and schedule_name.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT INTO schedule (
    shard, id, name, task, spec, calendars, priority, revision, since, paused_at, paused_by, pause_note, skip_until,
    runs, failures, created_at, created_by, changed_at, changed_by, input, namespace
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
ON CONFLICT DO NOTHING

-- Gives a schedule another definition. The number of its runs stays. `keep_edit` has kept the former one.
-- Guarantees: one row or none; none when it is not there. The answer is its name and namespace, which never change.
-- Index: the primary key; schedule_task and schedule_paused follow.
-- Concurrency: only the writer runs it, under the shard's fence.
UPDATE schedule
SET task = ?3, spec = ?4, calendars = ?5, priority = ?6, revision = ?7, since = ?8, paused_at = ?9, paused_by = ?10,
    pause_note = ?11, skip_until = ?12, failures = ?13, changed_at = ?14, changed_by = ?15, input = ?16
WHERE shard = ?1 AND id = ?2
RETURNING name, namespace

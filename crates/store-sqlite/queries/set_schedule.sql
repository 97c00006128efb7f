-- Changes the state of a schedule, but for the number of its runs. Who changed it stays, where nobody asked for it.
-- Guarantees: one row or none; none when it is not there.
-- Index: the primary key; schedule_paused follows.
-- Concurrency: only the writer runs it, under the shard's fence.
UPDATE schedule
SET revision = ?3, since = ?4, paused_at = ?5, paused_by = ?6, pause_note = ?7, skip_until = ?8,
    failures = ?9, changed_at = coalesce(?10, changed_at), changed_by = coalesce(?11, changed_by)
WHERE shard = ?1 AND id = ?2

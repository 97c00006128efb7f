-- Puts on record that a schedule is edited, with the spec that it has until now.
-- Guarantees: one row or none; none when the schedule is not there.
-- Index: the primary key of schedule; schedule_change_of and schedule_change_at follow.
-- Concurrency: only the writer runs it, under the shard's fence, before `edit_schedule`.
INSERT INTO schedule_change (schedule, at, who, kind, note, former_spec)
SELECT id, ?3, ?4, ?5, ?6, spec FROM schedule WHERE shard = ?1 AND id = ?2

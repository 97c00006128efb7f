-- Puts on record what was done to a schedule.
-- Index: the primary key; schedule_change_of and schedule_change_at follow.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT INTO schedule_change (schedule, at, who, kind, note, former_spec) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

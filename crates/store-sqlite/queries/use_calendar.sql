-- A schedule refers to a calendar.
-- Guarantees: once, however often it is said.
-- Index: the primary key; calendar_use_name and calendar_use_schedule follow.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT INTO calendar_use (namespace, calendar, schedule, shard, name) VALUES (?5, ?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING

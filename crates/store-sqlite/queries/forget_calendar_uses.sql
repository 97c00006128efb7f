-- A schedule refers to no calendar.
-- Index: calendar_use_schedule.
-- Concurrency: only the writer runs it, under the shard's fence.
DELETE FROM calendar_use WHERE schedule = ?1

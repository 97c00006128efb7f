-- Keeps something that people may want to be told.
-- Guarantees: its number is larger than any that was given before.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction of what the notice is about.
INSERT INTO notice (at, kind, shard, task, job, schedule, planned_at, count, lateness)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

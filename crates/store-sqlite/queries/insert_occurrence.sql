-- Gives a planned time its verdict.
-- Guarantees: one row or none; none when it has one already, whoever gave it.
-- Index: the primary key; occurrence_queued or occurrence_decided follows.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT INTO occurrence (schedule, at, shard, slot, verdict, decided_at, marks, count, job, reason, requested_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT DO NOTHING

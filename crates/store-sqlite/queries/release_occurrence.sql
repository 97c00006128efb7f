-- Gives a planned time that was queued its final verdict.
-- Guarantees: one row or none; none when it is not there or not queued.
-- Index: the primary key; occurrence_queued and occurrence_decided follow.
-- Concurrency: only the writer runs it, under the shard's fence.
UPDATE occurrence SET slot = ?3, verdict = ?4, decided_at = ?5, marks = ?6, count = ?7, job = ?8, reason = ?9
WHERE schedule = ?1 AND at = ?2 AND verdict = 2

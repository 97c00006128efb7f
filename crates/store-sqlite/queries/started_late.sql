-- Says when the run of a planned time started, and marks it.
-- Guarantees: one row or none; none when the time has another job, or its row is gone.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
UPDATE occurrence SET started_at = ?4, marks = marks | ?5 WHERE schedule = ?1 AND at = ?2 AND job = ?3

-- Keeps an outcome that came too late. Workers repeat what was not acknowledged: the first one stays. Of one attempt there are
-- 8 at most, whoever sends them.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT OR IGNORE INTO stale_outcome (job, attempt, worker, at, outcome)
SELECT ?1, ?2, ?3, ?4, ?5
WHERE (SELECT count(*) FROM stale_outcome WHERE job = ?1 AND attempt = ?2) < 8

-- Keeps an outcome that came too late. Workers repeat what was not acknowledged: the first one stays.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT OR IGNORE INTO stale_outcome (job, attempt, worker, at, outcome) VALUES (?1, ?2, ?3, ?4, ?5)

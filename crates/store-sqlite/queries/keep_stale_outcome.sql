-- Keeps an outcome that came too late. The same one twice is one.
-- Index: the primary key.
-- Concurrency: only the writer runs it, under the shard's fence.
INSERT OR IGNORE INTO stale_outcome (job, attempt, at, worker, outcome) VALUES (?1, ?2, ?3, ?4, ?5)

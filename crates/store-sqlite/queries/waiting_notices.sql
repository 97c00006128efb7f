-- The notices that nobody has taken, in order of number. Kinds that this program does not know wait for one that does.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT seq, at, kind, shard, task, job, schedule, planned_at, count, lateness FROM notice
WHERE seq > 0 AND kind <= ?2 ORDER BY seq LIMIT ?1

-- The notices that nobody has taken, in order of number. Kinds that this program does not know wait for one that does. The
-- caller stops when it has enough.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot.
SELECT seq, at, kind, shard, task, job, schedule, planned_at, count, lateness FROM notice
WHERE seq > 0 AND kind <= ?1 ORDER BY seq

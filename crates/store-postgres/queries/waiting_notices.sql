-- Notices that nobody has taken, in order of number, so many. Kinds that this program does not know wait for one that
-- does.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot. Others may take them meanwhile, which take_notices shows.
SELECT seq, at, task, job, schedule, planned_at, lateness, count, shard, kind FROM notice
WHERE kind <= $2 ORDER BY seq LIMIT $1

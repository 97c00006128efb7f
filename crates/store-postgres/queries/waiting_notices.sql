-- Notices that nobody has taken, after a number and in its order, so many. Kinds that this program does not know wait
-- for one that does.
-- Index: the primary key, in its order.
-- Concurrency: a snapshot. Others may take them meanwhile, which take_notices shows.
SELECT seq, at, task, job, schedule, planned_at, lateness, count, shard, kind FROM notice
WHERE seq > $3 AND kind <= $2 ORDER BY seq LIMIT $1

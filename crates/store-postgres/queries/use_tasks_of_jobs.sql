-- As use_tasks, for the tasks of jobs that were moved far.
-- Index: the primary keys of job and task.
-- Concurrency: under the fences of the jobs' shards.
UPDATE task SET used_until = used.until
FROM (
    SELECT job.task AS number, max(moved.due_at) AS until
    FROM unnest($1::smallint[], $2::bigint[], $3::uuid[]) AS moved (shard, due_at, id)
    JOIN job ON job.shard = moved.shard AND job.due_at = moved.due_at AND job.id = moved.id
    GROUP BY job.task
) AS used
WHERE task.number = used.number AND task.used_until < used.until - $4::bigint

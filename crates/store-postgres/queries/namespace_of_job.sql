-- Of which namespace a job is: nothing in the row for the default one, no row if there is no such job.
-- Index: the primary key of job; job_moved, whose condition is in the second part; those on id of the partitions of history.
-- Concurrency: a snapshot: a job that moves is seen in one place. All parts are read in any case, so that nobody learns from the
-- time which jobs of others there are.
SELECT job.namespace FROM job WHERE job.shard = $1 AND job.due_at = $2 AND job.id = $3
UNION ALL
SELECT job.namespace FROM job WHERE job.id = $3 AND job.moved AND job.due_at <> $2
UNION ALL
SELECT history.namespace FROM history WHERE history.id = $3

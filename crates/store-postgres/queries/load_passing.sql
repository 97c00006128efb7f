-- As load, without the jobs of some tasks: these are looked at here and not sent. The last row that is looked at is
-- sent in any case, so that the next page can go on after it.
-- Guarantees: looks at no more than $7 rows, and sends no more than $5.
-- Index: the primary key of job, in its order.
-- Concurrency: a snapshot.
SELECT job.id, job.due_at, task.id AS task, job.priority, job.next_attempt, job.failures, job.node_failures,
       job.submitted_at, job.tracing_id,
       CASE WHEN length(job.input) <= $6 THEN job.input END AS input, length(job.input) AS input_len, job.source, job.give_backs,
       job.place = $7, job.is_skipped
FROM (
    SELECT *, row_number() OVER (ORDER BY due_at, id) AS place,
           task = ANY (ARRAY (SELECT number FROM task WHERE id = ANY ($8::uuid[]))) AS is_skipped
    FROM job
    WHERE shard = $1 AND (due_at, id) > ($2, $3)
      AND (due_at, id) <= ($4, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
    ORDER BY due_at, id LIMIT $7
) AS job JOIN task ON task.number = job.task
WHERE NOT job.is_skipped OR job.place = $7
ORDER BY job.due_at, job.id LIMIT $5

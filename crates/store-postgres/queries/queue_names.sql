-- The queues that named tasks of a namespace name, after a name, in order.
-- Guarantees: reads one entry of the index for each queue, however many tasks name it.
-- Index: task_queue, in its order.
-- Concurrency: a snapshot.
WITH RECURSIVE name (queue) AS (
    (SELECT queue COLLATE "C" FROM task
     WHERE namespace::bigint = $1::integer::bigint AND NOT deleted AND name IS NOT NULL AND queue COLLATE "C" > $2
     ORDER BY queue COLLATE "C" LIMIT 1)
    UNION ALL
    SELECT next.queue FROM name, LATERAL (
        SELECT task.queue COLLATE "C" AS queue FROM task
        WHERE task.namespace::bigint = $1::integer::bigint AND NOT task.deleted AND task.name IS NOT NULL AND task.queue COLLATE "C" > name.queue
        ORDER BY task.queue COLLATE "C" LIMIT 1
    ) AS next
)
SELECT queue FROM name LIMIT $3

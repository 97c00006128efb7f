-- The queues that named tasks of a namespace name, after a name, in order.
-- Guarantees: reads one entry of the index for each queue, however many tasks name it.
-- Index: task_queue, in its order.
-- Concurrency: a snapshot.
WITH RECURSIVE name(queue) AS (
    SELECT min(queue) FROM task WHERE namespace = ?1 AND deleted = 0 AND name IS NOT NULL AND queue > ?2
    UNION ALL
    SELECT (SELECT min(task.queue) FROM task
            WHERE task.namespace = ?1 AND task.deleted = 0 AND task.name IS NOT NULL AND task.queue > name.queue)
    FROM name WHERE name.queue IS NOT NULL
)
SELECT queue FROM name WHERE queue IS NOT NULL LIMIT ?3

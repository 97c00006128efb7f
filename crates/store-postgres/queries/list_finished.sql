-- Finished jobs between two ids, both exclusive, so many of them, in order of id.
-- Index: those on id of the partitions, merged.
-- Concurrency: a snapshot.
SELECT history.id, task.id AS task, history.priority, history.next_attempt, history.failures, history.node_failures,
       history.submitted_at, history.tracing_id, history.state, history.finished_at, history.due_at, history.reason,
       history.source, history.namespace, task.kind, task.queue
FROM history JOIN task ON task.number = history.task
WHERE history.id > $1 AND history.id < $2
ORDER BY history.id LIMIT $3

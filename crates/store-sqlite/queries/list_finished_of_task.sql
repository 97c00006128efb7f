-- Finished jobs of one task between two ids, both exclusive. The caller appends the order and stops after a bounded
-- number of rows.
-- Index: history_task, in order of id.
-- Concurrency: a snapshot.
SELECT history.id, task.id AS task, history.priority, history.next_attempt, history.failures, history.node_failures,
       history.submitted_at, history.tracing_id, history.state, history.finished_at, history.due_at, history.reason,
       history.source, history.namespace, task.kind, task.queue
FROM history CROSS JOIN task ON task.number = history.task
WHERE history.task = ?3 AND history.id > ?1 AND history.id < ?2

-- One finished job, for lists.
-- Guarantees: input and output are not read.
-- Index: the primary keys of history and task.
-- Concurrency: a snapshot.
SELECT history.id, task.id AS task, history.priority, history.next_attempt, history.failures, history.node_failures,
       history.submitted_at, history.tracing_id, history.state, history.finished_at, history.due_at, history.reason,
       history.source, history.namespace
FROM history CROSS JOIN task ON task.number = history.task
WHERE history.id = ?1

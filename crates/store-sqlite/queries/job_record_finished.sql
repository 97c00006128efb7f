-- One finished job with its last attempt, for people.
-- Index: the primary keys of history and task.
-- Concurrency: a snapshot.
SELECT history.id, task.id AS task, history.priority, history.next_attempt, history.failures, history.node_failures,
       history.submitted_at, history.tracing_id, history.state, history.finished_at, history.due_at, history.reason,
       history.source, history.namespace,
       history.attempt, history.worker, history.server, history.picked_up_at, history.started_at, history.finished_at,
       history.ending, history.reason, history.details, history.log_path, history.log_bytes,
       history.due_at, history.input, history.output, history.requester
FROM history CROSS JOIN task ON task.number = history.task
WHERE history.id = ?1

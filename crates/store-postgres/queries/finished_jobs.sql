-- Those of some jobs that are finished, for lists.
-- Guarantees: inputs and outputs are not read.
-- Index: those on id of the partitions of history; the primary key of task.
-- Concurrency: a snapshot.
SELECT history.id, task.id AS task, history.priority, history.next_attempt, history.failures, history.node_failures,
       history.submitted_at, history.tracing_id, history.state, history.finished_at, history.due_at, history.reason,
       history.source, history.namespace
FROM unnest($1::uuid[]) AS wanted (id)
JOIN history ON history.id = wanted.id
JOIN task ON task.number = history.task

-- Tasks by their ids, in the order asked for, also deleted and nameless ones.
-- Index: UNIQUE (id).
-- Concurrency: a snapshot.
SELECT task.id, task.name, task.revision, task.created_at, task.updated_at, task.spec,
       CASE WHEN task.waits THEN task.artifact END, task.namespace,
       task.created_by, task.changed_by
FROM unnest($1::uuid[]) WITH ORDINALITY AS wanted (id, place) JOIN task ON task.id = wanted.id
ORDER BY wanted.place

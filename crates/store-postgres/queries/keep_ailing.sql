-- Remembers tasks that ail, in place of what was known of them.
-- Index: the primary key; ailing_last follows.
-- Concurrency: rows are locked in the order given, which is by task.
INSERT INTO ailing (task, since, last, failures, namespace)
SELECT new.task, new.since, new.last, new.failures, coalesce(task.namespace, 0)
FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::integer[]) AS new (task, since, last, failures)
LEFT JOIN task ON task.id = new.task
ON CONFLICT (task) DO UPDATE SET
    since = excluded.since, last = excluded.last, failures = excluded.failures, namespace = excluded.namespace

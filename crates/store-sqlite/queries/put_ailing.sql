-- A task ails. Replaces what was known of it. Its namespace is that of the task.
-- Index: the primary key; ailing_last and ailing_namespace follow.
-- Concurrency: only the writer runs it.
INSERT OR REPLACE INTO ailing (task, since, last, failures, namespace)
VALUES (?1, ?2, ?3, ?4, coalesce((SELECT namespace FROM task WHERE id = ?1), 0))

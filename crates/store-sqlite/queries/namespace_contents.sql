-- Whether a namespace has schedules, tasks, jobs that wait or run, artifacts, calendars, secrets, rules.
-- Guarantees: reads at most one row of each. Nothing is asked of the default namespace, which is in no index of jobs.
-- Index: schedule_name, task_live_name, job_namespace, artifact_namespace; the first columns of the keys of the others.
-- Concurrency: run by the writer in the transaction that deletes the namespace.
SELECT EXISTS (SELECT 1 FROM schedule WHERE namespace = ?1),
       EXISTS (SELECT 1 FROM task WHERE namespace = ?1 AND deleted = 0 AND name IS NOT NULL),
       EXISTS (SELECT 1 FROM job WHERE namespace = ?1),
       EXISTS (SELECT 1 FROM artifact WHERE namespace = ?1),
       EXISTS (SELECT 1 FROM calendar WHERE namespace = ?1),
       EXISTS (SELECT 1 FROM secret WHERE namespace = ?1),
       EXISTS (SELECT 1 FROM notification_rule WHERE namespace = ?1)

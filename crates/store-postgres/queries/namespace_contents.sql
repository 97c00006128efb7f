-- Whether a namespace has schedules, tasks, jobs that wait or run, artifacts, calendars, secrets, rules.
-- Guarantees: reads at most one row of each. Nothing is asked of the default namespace, which is in no index of jobs.
-- Index: schedule_name, task_live_name, job_namespace, artifact_namespace; the primary keys of the others.
-- Concurrency: in the transaction that locked the namespace, so that nobody stores anything else in it.
SELECT EXISTS (SELECT 1 FROM schedule WHERE namespace = $1),
       EXISTS (SELECT 1 FROM task WHERE namespace = $1 AND NOT deleted AND name IS NOT NULL),
       EXISTS (SELECT 1 FROM job WHERE namespace = $1),
       EXISTS (SELECT 1 FROM artifact WHERE namespace = $1),
       EXISTS (SELECT 1 FROM calendar WHERE namespace = $1),
       EXISTS (SELECT 1 FROM secret WHERE namespace = $1),
       EXISTS (SELECT 1 FROM notification_rule WHERE namespace = $1)

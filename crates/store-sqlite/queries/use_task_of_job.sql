-- As use_task, for the task of a job that was moved.
-- Index: the primary keys of job and task.
-- Concurrency: only the writer runs it, under the shard's fence.
UPDATE task SET used_until = ?4
WHERE number = (SELECT task FROM job WHERE shard = ?1 AND due_at = ?4 AND id = ?2) AND used_until < ?3

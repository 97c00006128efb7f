-- Moves a job to another due time, with new counters.
-- Guarantees: one row or none; none when the job is not there or has another attempt.
-- Index: the primary key; job_moved and job_given_back follow.
-- Concurrency: only the writer runs it, under the shard's fence.
UPDATE job SET due_at = ?4, moved = ?5, next_attempt = ?6, failures = ?7, node_failures = ?8,
               give_backs = ?10, late_from = ?11
WHERE shard = ?1 AND due_at = ?2 AND id = ?3 AND (?9 IS NULL OR next_attempt = ?9)

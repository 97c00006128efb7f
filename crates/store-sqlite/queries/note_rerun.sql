-- Records that a finished job is about to run again.
-- Guarantees: one row for each time; `rerun` has found the job.
-- Index: the primary key of history.
-- Concurrency: only the writer runs it, under the shard's fence, in the transaction that moves the job.
INSERT INTO rerun (job, at, state, next_attempt) SELECT id, ?2, state, ?3 FROM history WHERE id = ?1

-- Writes what a batch has come to.
-- Guarantees: one row, or none if the batch is gone.
-- Index: the primary key; batch_of_status, batch_wake and batch_ended follow.
-- Concurrency: the row is locked by lock_batch before.
UPDATE batch SET status = $2, state = $3, wake_at = $4, ended_at = $5 WHERE id = $1

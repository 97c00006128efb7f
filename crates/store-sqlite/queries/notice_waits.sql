-- Whether nobody has taken a notice.
-- Index: the primary key.
-- Concurrency: run by the writer in the transaction that takes it.
SELECT 1 FROM notice WHERE seq = ?1

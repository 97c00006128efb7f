-- Until when a namespace has paid for its submissions.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
SELECT paid_until FROM submission_rate WHERE namespace = ?1

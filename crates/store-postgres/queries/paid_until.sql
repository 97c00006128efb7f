-- Until when a namespace has paid for its submissions.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT paid_until FROM submission_rate WHERE namespace = $1

-- Counts a use of a join token that has one left.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
UPDATE join_token SET uses = uses + 1 WHERE id = ?1 AND uses < uses_max

-- Counts a use of a join token that has one left.
-- Index: the primary key.
-- Concurrency: after bump_enrolments, so that what was read of the token is still true.
UPDATE join_token SET uses = uses + 1 WHERE id = $1 AND uses < uses_max

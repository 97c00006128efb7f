-- Changes what workers may do that join with a token from now on.
-- Index: the primary key.
-- Concurrency: after bump_enrolments, which all who change one wait for.
UPDATE join_token SET scope = $2 WHERE id = $1

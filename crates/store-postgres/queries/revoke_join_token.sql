-- Ends a join token.
-- Guarantees: the time of the first call stays.
-- Index: the primary key.
-- Concurrency: after bump_enrolments: a worker that joins at the same time is before it or is refused.
UPDATE join_token SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL

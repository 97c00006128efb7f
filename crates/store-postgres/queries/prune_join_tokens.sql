-- Join tokens that ended before a time, so many at once, the oldest first.
-- Index: join_token_expires, in its order.
-- Concurrency: after bump_enrolments.
DELETE FROM join_token WHERE id IN (
    SELECT id FROM join_token WHERE expires_at < $1 ORDER BY expires_at, id LIMIT $2
)

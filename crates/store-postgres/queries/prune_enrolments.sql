-- Enrolments whose last certificate expired before a time, so many at once, the oldest first.
-- Index: enrolment_expires, in its order.
-- Concurrency: after bump_enrolments.
DELETE FROM enrolment WHERE id IN (
    SELECT id FROM enrolment WHERE expires_at < $1 ORDER BY expires_at, id LIMIT $2
)

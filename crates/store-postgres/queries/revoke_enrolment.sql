-- Ends an enrolment.
-- Guarantees: the time of the first call stays.
-- Index: the primary key; enrolment_revision follows.
-- Concurrency: after bump_enrolments.
UPDATE enrolment SET revoked_at = $2, revision = $3 WHERE id = $1 AND revoked_at IS NULL

-- Changes what a worker may do.
-- Index: the primary key; enrolment_revision follows.
-- Concurrency: after bump_enrolments, which all who change one wait for.
UPDATE enrolment SET scope = $2, revision = $3 WHERE id = $1
